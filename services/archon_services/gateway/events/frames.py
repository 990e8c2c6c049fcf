"""Frames of server-sent events, and the number after which a client goes on."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Final

from archon.errors import ArchonError, InvalidArgument
from archon_services.gateway.failures import failure_json

HEARTBEAT: Final = b": alive\n\n"
"""A comment, which shows that the stream is alive and keeps proxies from closing it."""

RETRY: Final = (1_000, 3_000)
"""Milliseconds that a client waits before it connects again, at least and at most: the viewers of a gateway that stops
do not come back at the same moment."""

END: Final = b"event: end\ndata: {}\n\n"
"""No further event comes: the client closes the stream, or gets 204 when it connects again."""

_MAX_NUMBER: Final = 2**63 - 1
_MAX_DIGITS: Final = len(str(_MAX_NUMBER))


def first_frame() -> bytes:
    """Returns the beginning of a stream, which says how long its client waits before it connects again."""
    return f"retry: {random.randint(*RETRY)}\n\n".encode()


def failure_frame(error: ArchonError) -> bytes:
    """Returns an error as the event `failure`, after which the stream ends."""
    return f"event: failure\ndata: {json.dumps(failure_json(error))}\n\n".encode()


def resume_after(headers: Mapping[str, str], query: Mapping[str, str]) -> int:
    """Returns the number in `Last-Event-ID`, which a browser sends when it connects again, or else in the parameter
    `after`; 0 without either. Raises InvalidArgument if it is no number."""
    text = headers.get("last-event-id") or query.get("after") or "0"
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS) or int(text) > _MAX_NUMBER:
        raise InvalidArgument(f"the number of the last event is {text[:40]!r}: expected up to {_MAX_DIGITS} digits")
    return int(text)
