"""A TCP proxy that stands before a server and can lose what it carries, at a moment that a test chooses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class TcpProxy:
    """Carries bytes between 127.0.0.1:`port` and a server's port. Use it as an async context manager."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self._carrying: set[asyncio.Task[None]] = set()
        self._swallow: Callable[[bytes], bool] | None = None
        self._answered = True
        self._lost = asyncio.Event()
        self.refuse = False
        """Whether new connections are closed at once."""

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def __aenter__(self) -> TcpProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in self._carrying:
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    def cut(self) -> None:
        """Ends all connections now, on both sides, without a goodbye."""
        for writer in list(self._connections):
            writer.transport.abort()

    def lose(self, wanted: Callable[[bytes], bool], *, answered: bool) -> asyncio.Event:
        """Of the next bytes for which `wanted` is true: passes them on to the server, waits for its answer, and cuts the
        connection instead of giving it; where not `answered`, cuts it before the server got them. From then on new
        connections are refused until `refuse` is false again. The event is set when that has happened."""
        self._swallow, self._answered = wanted, answered
        self._lost = asyncio.Event()
        return self._lost

    def _lose(self) -> None:
        self.refuse = True
        self._lost.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuse:
            writer.transport.abort()
            return
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            writer.transport.abort()
            return
        both = (writer, server_writer)
        self._connections.update(both)
        swallow = asyncio.Event()
        ways = [
            asyncio.create_task(self._upwards(reader, server_writer, swallow)),
            asyncio.create_task(self._downwards(server_reader, writer, swallow)),
        ]
        self._carrying.update(ways)
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for one in both:
            one.transport.abort()
            self._connections.discard(one)
        for way in ways:
            way.cancel()
            self._carrying.discard(way)

    async def _upwards(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, swallow: asyncio.Event
    ) -> None:
        try:
            while data := await reader.read(65536):
                if self._swallow is not None and self._swallow(data):
                    self._swallow = None
                    if not self._answered:
                        self._lose()
                        return
                    swallow.set()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass

    async def _downwards(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, swallow: asyncio.Event
    ) -> None:
        try:
            while data := await reader.read(65536):
                if swallow.is_set():
                    self._lose()
                    return
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
