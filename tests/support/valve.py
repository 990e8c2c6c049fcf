"""A TCP proxy on 127.0.0.1 whose directions can be shut: bytes wait, connections stay open, as behind a network that
drops packets."""

from __future__ import annotations

import asyncio


class Valve:
    """Carries between `port` and a server's port, which may become known later. Use it as an async context manager."""

    def __init__(self) -> None:
        self.server_port = 0
        self._server: asyncio.Server | None = None
        self._open = {"up": asyncio.Event(), "down": asyncio.Event()}
        self._carrying: set[asyncio.Task[None]] = set()
        for way in self._open.values():
            way.set()

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def __aenter__(self) -> Valve:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._carrying:
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    @property
    def is_open(self) -> bool:
        """Both ways."""
        return all(way.is_set() for way in self._open.values())

    def shut(self, *ways: str) -> None:
        """`up`: what is said to the server; `down`: what it says."""
        for way in ways or self._open:
            self._open[way].clear()

    def open(self) -> None:
        """Both ways; what waited goes on."""
        for way in self._open.values():
            way.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.server_port)
        except OSError:
            writer.transport.abort()
            return
        ways = [
            asyncio.create_task(self._carry(reader, server_writer, "up")),
            asyncio.create_task(self._carry(server_reader, writer, "down")),
        ]
        self._carrying.update(ways)
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for one in (writer, server_writer):
            one.transport.abort()
        for way in ways:
            way.cancel()
            self._carrying.discard(way)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str) -> None:
        try:
            while data := await reader.read(65536):
                await self._open[way].wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
