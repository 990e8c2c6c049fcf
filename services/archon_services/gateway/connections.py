"""Connections of the HTTP server: a client that sends or reads too slowly is cut off."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS: Final = 10.0
"""Seconds from the first byte of a request, or the connection, to the end of its headers."""

STALLED_SECONDS: Final = 30.0
"""Seconds for which a client may leave a full buffer of responses unread, or its host leave bytes unacknowledged: the
heartbeats of a stream to a host that is gone fill no buffer."""


class TimedProtocol(H11Protocol):
    """Uvicorn's protocol with limits of time, which it leaves to a proxy in front of it."""

    _reading: asyncio.TimerHandle | None = None
    _writing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        _bound_silence(transport)
        self._reading = self.loop.call_later(HEADER_SECONDS, transport.abort)

    def data_received(self, data: bytes) -> None:
        if self._reading is None and (self.cycle is None or self.cycle.response_complete):
            self._reading = self.loop.call_later(HEADER_SECONDS, self.transport.abort)
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._reading = _cancel(self._reading)

    def send_400_response(self, msg: str) -> None:
        """Refuses a malformed request, also one whose body turns out to be malformed while a room has it: the room is
        told that the client is gone, and a response that has begun is broken off."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self._reading)
        _cancel(self._writing)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._writing is None:
            self._writing = self.loop.call_later(STALLED_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._writing = _cancel(self._writing)


def _bound_silence(transport: asyncio.Transport) -> None:
    """Has the system end a connection whose other end acknowledges nothing for STALLED_SECONDS, if it can: by itself it
    tries for a quarter of an hour."""
    connection = transport.get_extra_info("socket")
    if connection is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(STALLED_SECONDS * 1_000))


def _cancel(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Cancels a timer. Returns None, for the variable that had it."""
    if timer is not None:
        timer.cancel()
    return None
