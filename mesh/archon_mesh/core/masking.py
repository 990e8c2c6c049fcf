"""Arguments of tools that are secrets by their name, such as `password`: their values are masked wherever a call is
shown, recorded or traced. The tool and the model have them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, quote_plus

MASK: Final = "***"

MIN_ENCODED: Final = 8
"""Characters of a secret from which on its encoded forms are replaced, too: shorter ones occur by chance."""


def forms_of(secret: str) -> list[str]:
    """Returns a secret in the forms in which others repeat it: as it is, encoded for a URL, and in base64; the longest
    first."""
    if len(secret) < MIN_ENCODED:
        return [secret]
    raw = secret.encode(errors="surrogatepass")
    coded = [encode(raw).decode().rstrip("=") for encode in (base64.b64encode, base64.urlsafe_b64encode)]
    return sorted({secret, quote(raw, safe=""), quote(raw), quote_plus(raw), *coded}, key=len, reverse=True)


_SECRET: Final = re.compile(
    r"(?i)(^|[_.-]|(?<=[a-z])(?=[A-Z]))"
    r"(password|passwd|passphrase|secret|api[_-]?key|private[_-]?key|access[_-]?token|auth[_-]?token|credentials?)$"
)


def masked_value(value: Any) -> Any:
    """Returns a JSON value with MASK instead of the values of members that are named like secrets; MASK alone for one
    that is nested too deeply to look at."""
    try:
        return _masked(value)
    except RecursionError:
        return MASK


def _masked(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: MASK
            if isinstance(key, str) and _SECRET.search(key) and item not in (None, "", True, False)
            else _masked(item)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_masked(item) for item in value]
    return value


def masked_arguments(arguments_json: str) -> str:
    """Returns the arguments of a tool call as a model wrote them, unless a member is named like a secret. A text that
    is no JSON stays as it is."""
    if not _MAY_HAVE.search(arguments_json):
        return arguments_json
    try:
        value = json.loads(arguments_json)
    except (ValueError, RecursionError):
        return arguments_json
    masked = masked_value(value)
    return arguments_json if masked == value else json.dumps(masked, ensure_ascii=False)


_MAY_HAVE: Final = re.compile(r"(?i)pass|secret|key|token|credential|\\u")
"""Most calls name no secret, and are not parsed; a name may be written with escapes."""
