"""Lines of server-sent events, as clients read them that take more characters for the end of a line than the standard
does."""

from __future__ import annotations

from typing import Final

EVENTS: Final = "text/event-stream"

_ENDS: Final = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"), (b"\xc2\x85", b"\\u0085"))
"""U+2028, U+2029 and U+0085 in UTF-8, and as an escape of JSON."""


def unbroken(piece: bytes) -> bytes:
    """Returns a piece of a stream whose data is JSON, with escapes for the characters at which some clients end a
    line. JSON has these characters in its texts alone."""
    for end, escape in _ENDS:
        piece = piece.replace(end, escape)
    return piece
