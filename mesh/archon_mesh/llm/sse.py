"""Reads server-sent events from bytes, however these are cut into pieces.

Source: WHATWG HTML, "Interpreting an event stream" (https://html.spec.whatwg.org/multipage/server-sent-events.html).
Unlike there, an event counts also if the stream ends without the empty line behind it: many servers leave it out.
"""

from __future__ import annotations

import codecs
from typing import Final, NamedTuple

from archon.errors import MessageTooLarge
from archon.failure_kinds import PROVIDER

MAX_EVENT: Final = 32 * 1024 * 1024
"""Characters of an event. Whole images come as one."""


class ServerEvent(NamedTuple):
    """An event of a stream: its type, `message` unless the server names one, and its data."""

    type: str
    data: str


class EventReader:
    """Reads one stream."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._line: list[str] = []
        self._size = 0
        self._follows_return = False
        self._type = ""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """Takes the next bytes. Returns the events that are complete. Raises MessageTooLarge above MAX_EVENT."""
        return self._read(self._decoder.decode(piece))

    def end(self) -> list[ServerEvent]:
        """Ends the stream. Returns the event that it breaks off with, if there is one."""
        return [*self._read(self._decoder.decode(b"", final=True)), *self._read("\n\n")]

    def _read(self, text: str) -> list[ServerEvent]:
        if self._follows_return and text:  # the pair of a line's end may be cut in two
            text = text.removeprefix("\n")
            self._follows_return = False
        self._follows_return = text.endswith("\r") or (self._follows_return and not text)
        *lines, rest = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        events: list[ServerEvent] = []
        for line in lines:
            self._line.append(line)
            events += self._end_line("".join(self._line))
            self._line.clear()
        if rest:
            self._line.append(rest)
            self._grow(len(rest))
        return events

    def _end_line(self, line: str) -> list[ServerEvent]:
        if line:
            self._field(line)
            return []
        event = ServerEvent(self._type or "message", "\n".join(self._data))
        found = [event] if self._data else []
        self._type, self._data, self._size = "", [], 0
        return found

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._grow(len(value))
            self._data.append(value)
        elif name == "event":
            self._type = value

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > 2 * MAX_EVENT:  # a line in pieces counts twice
            raise MessageTooLarge(
                f"the model endpoint sent an event of more than {MAX_EVENT:,} characters", kind=PROVIDER
            )
