"""Records without their contents: the mode of ARCHON_RECORDS, and the substitutes of texts and values."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import secrets
from enum import StrEnum
from typing import Any, Final

REDACTED: Final = "redacted"
"""The key of a text's substitute."""

_KEY: Final = secrets.token_bytes(32)
"""Hashes tell whether two texts of one process are equal. Without the key, which no record has, texts cannot be guessed
from them."""

CHARS_PER_TOKEN: Final = 4
"""By which the tokens of a text that is not recorded are estimated."""

_log = logging.getLogger(__name__)


class RecordMode(StrEnum):
    """How much of a call is recorded."""

    FULL = "full"
    REDACTED = "redacted"
    OFF = "off"


def record_mode() -> RecordMode:
    """Returns the mode of ARCHON_RECORDS; REDACTED for an unknown value, which may be meant to hide something."""
    value = os.environ.get("ARCHON_RECORDS") or RecordMode.FULL
    try:
        return RecordMode(value)
    except ValueError:
        _log.warning("ARCHON_RECORDS is %r, expected full, redacted or off: contents are not recorded", value)
        return RecordMode.REDACTED


def redacted_text(text: str) -> dict[str, Any]:
    """Returns the recorded substitute of a text: `chars`, `tokens` (estimated), `hash` (64 bits of HMAC-SHA256)."""
    digest = hmac.new(_KEY, text.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()[:16]
    return {REDACTED: {"chars": len(text), "tokens": -(-len(text) // CHARS_PER_TOKEN), "hash": digest}}


def redacted_value(value: Any) -> dict[str, Any]:
    """Returns the recorded substitute of a JSON value, from its text without spaces."""
    text = (
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    )
    return redacted_text(text)
