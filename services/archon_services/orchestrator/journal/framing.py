"""Framing of stored events: a step's `data` is the bytes of a message whose field 1 is `repeated RunEvent`.

Source: protobuf encoding, https://protobuf.dev/programming-guides/encoding/ (length-delimited fields).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from archon.errors import DataLoss
from archon.wire import encode_varint

_EVENTS: Final = 0x0A
"""Tag of field 1, length-delimited."""


def frame(event: bytes) -> bytes:
    """Frames one serialised event."""
    return bytes([_EVENTS]) + encode_varint(len(event)) + event


def events_in(data: bytes) -> list[bytes]:
    """Returns the serialised events of a step. Raises DataLoss if the framing is broken."""
    return [data[start:end] for start, end in _bounds(data)]


def as_field(data: bytes, number: int) -> bytes:
    """Returns the same events framed as field `number` (1 to 15) of another message."""
    framed = bytearray(data)
    tag, position = (number << 3) | 2, 0
    for _, end in _bounds(data):
        framed[position] = tag
        position = end
    return bytes(framed)


def _bounds(data: bytes) -> Iterator[tuple[int, int]]:
    position, size = 0, len(data)
    while position < size:
        if data[position] != _EVENTS:
            raise DataLoss("a step of the journal is not framed as events")
        length = shift = 0
        while True:
            position += 1
            if position >= size or shift > 35:
                raise DataLoss("a step of the journal is truncated")
            byte = data[position]
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        start = position + 1
        position = start + length
        if position > size:
            raise DataLoss("a step of the journal is truncated")
        yield start, position
