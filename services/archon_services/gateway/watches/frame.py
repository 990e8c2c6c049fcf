"""One event of a watch, for all of its viewers."""

from __future__ import annotations

import json
from typing import Any, Final

from google.protobuf import json_format

_COPIES: Final = 3
"""A frame holds its message, and its text once a viewer reads that, which has up to twice the size."""

_OVERHEAD: Final = 200
"""Bytes of the objects of a frame."""


class Frame:
    """One event. `message` is the event or change itself; `number` its sequence number or revision, 0 if it has none;
    `size` the bytes that it takes in memory, at most."""

    __slots__ = ("_data", "message", "number", "size")

    def __init__(self, number: int, message: Any) -> None:
        self.number, self.message = number, message
        self.size = _COPIES * message.ByteSize() + _OVERHEAD
        self._data = b""

    @property
    def data(self) -> bytes:
        """The frame as a server-sent event, which is encoded once for all viewers. Its id is the number unless that is
        0."""
        if not self._data:
            content = json_format.MessageToDict(self.message)
            text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
            head = f"id: {self.number}\n" if self.number else ""
            self._data = f"{head}data: {text}\n\n".encode()
        return self._data
