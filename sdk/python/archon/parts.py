"""What people say, as it travels."""

from __future__ import annotations

from collections.abc import Sequence

from archon.api.common.v1 import common_pb2
from archon.channel import MAX_CHECKED_BYTES
from archon.errors import InvalidArgument, MessageTooLarge

_ROOM = 4096
"""Bytes of a message that are left for all else."""


def parts_of(said: str | Sequence[common_pb2.Part], what: str) -> Sequence[common_pb2.Part]:
    """A text as one part; parts as they are. `what` is its name in errors. Raises MessageTooLarge above what a message
    takes, InvalidArgument where the text is no UTF-8."""
    parts = [common_pb2.Part(text=_utf8(said, what))] if isinstance(said, str) else said
    size = sum(part.ByteSize() for part in parts)
    if size > MAX_CHECKED_BYTES - _ROOM:
        raise MessageTooLarge(
            f"{what} has {size:,} bytes, at most {MAX_CHECKED_BYTES - _ROOM:,} go in; pass large content by URL",
            metadata={"size": str(size)},
        )
    return parts


def _utf8(text: str, what: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{what} can't be written as UTF-8: {error.reason} at {error.start}") from None
    return text
