"""A TCP connection of a test's network: bytes pass through it, late or not at all, or it breaks."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final, Self

from archon.errors import Unavailable

HOST: Final = "127.0.0.1"

WAYS: Final = ("up", "down")
"""The directions of bytes: `up` to the server, `down` from it."""

_BACKLOG: Final = 128


class Link:
    """Forwards bytes between its own port of 127.0.0.1 and `server_port`, which may be set later. An async context
    manager.

    No byte is changed: bytes wait, are late, or are lost with their connection, as in a network under TCP.
    """

    def __init__(self, server_port: int = 0, *, port: int = 0) -> None:
        """`port` is its own; 0 for a free one."""
        self.server_port = server_port
        self.delay = 0.0
        """Seconds for which it carries one piece of bytes, in each direction; the next pieces wait."""

        self.refuse = False
        """Whether new connections are closed at once."""

        self._port = port
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._shut = dict.fromkeys(WAYS, 0)
        self._opened = {way: asyncio.Event() for way in WAYS}
        for way in self._opened.values():
            way.set()
        self._connections: set[asyncio.StreamWriter] = set()
        self._carrying: set[asyncio.Task[None]] = set()
        self._matches: Callable[[bytes], bool] | None = None
        self._answered = True
        self._lost = asyncio.Event()

    @property
    def address(self) -> str:
        """host:port that clients connect to."""
        return f"{HOST}:{self.port}"

    @property
    def port(self) -> int:
        """The port that clients connect to, from `listen` on."""
        return self._port

    def listen(self) -> str:
        """Accepts connections, which are served from `start` on. Returns its address. Raises Unavailable if the port is
        taken. Idempotent."""
        if self._socket is None:
            try:
                self._socket = socket.create_server((HOST, self._port), backlog=_BACKLOG)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # what it accepts inherits it
            except OSError as error:
                raise Unavailable(f"cannot listen on port {self._port}: {error.strerror}") from None
            self._port = self._socket.getsockname()[1]
        return self.address

    async def start(self) -> None:
        """Serves connections. Raises the errors of `listen`. Idempotent."""
        self.listen()
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, sock=self._socket)

    async def close(self) -> None:
        """Ends all connections, and listens no more. Idempotent."""
        if self._server is not None:
            self._server.close()
        if self._socket is not None:
            self._socket.close()
        self.cut()
        for task in self._carrying:
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def is_open(self) -> bool:
        """Whether bytes pass in both directions."""
        return all(way.is_set() for way in self._opened.values())

    def shut(self, *ways: str) -> None:
        """Lets bytes wait in these directions, or in both if none is named: connections stay open, as in a network
        that drops packets."""
        for way in ways or WAYS:
            self._shut[way] += 1
            self._opened[way].clear()

    def reopen(self, *ways: str) -> None:
        """Takes back one `shut`; bytes that waited are delivered once each `shut` is taken back."""
        for way in ways or WAYS:
            self._shut[way] = max(0, self._shut[way] - 1)
            if not self._shut[way]:
                self._opened[way].set()

    def open(self) -> None:
        """Opens both directions, however often they were shut; bytes that waited are delivered."""
        for way, opened in self._opened.items():
            self._shut[way] = 0
            opened.set()

    def cut(self) -> None:
        """Breaks all connections at both ends: bytes under way are lost."""
        for writer in list(self._connections):
            writer.transport.abort()

    def lose(self, matches: Callable[[bytes], bool], *, answered: bool) -> asyncio.Event:
        """Breaks the connection that carries the next request for which `matches` is true. If `answered`, the server
        receives the request and its answer is lost; otherwise the request is lost. Then sets the event, and refuses new
        connections until `refuse` is false again."""
        self._matches, self._answered = matches, answered
        self._lost = asyncio.Event()
        return self._lost

    @property
    def lost(self) -> bool:
        """Whether the connection of the last `lose` has broken."""
        return self._lost.is_set()

    def lose_no_more(self) -> None:
        """Takes `lose` back, and accepts connections again."""
        self._matches, self.refuse = None, False

    def _lose(self) -> None:
        self.refuse = True
        self._lost.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuse:
            writer.transport.abort()
            return
        try:
            server_reader, server_writer = await asyncio.open_connection(HOST, self.server_port)
        except OSError:
            writer.transport.abort()
            return
        ends = (writer, server_writer)
        self._connections.update(ends)
        unanswered = asyncio.Event()
        ways = [
            asyncio.create_task(self._carry(reader, server_writer, "up", unanswered), name="link up"),
            asyncio.create_task(self._carry(server_reader, writer, "down", unanswered), name="link down"),
        ]
        self._carrying.update(ways)
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.transport.abort()
                self._connections.discard(end)
            for way in ways:
                way.cancel()
                self._carrying.discard(way)

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str, unanswered: asyncio.Event
    ) -> None:
        """Passes bytes on until the connection ends. `unanswered` is set once the request of `lose` has passed."""
        try:
            while data := await reader.read(65536):
                await self._opened[way].wait()
                if self.delay:
                    await asyncio.sleep(self.delay)
                if way == "down" and unanswered.is_set():
                    self._lose()
                    return
                if way == "up" and self._matches is not None and self._matches(data):
                    self._matches = None
                    if not self._answered:
                        self._lose()
                        return
                    unanswered.set()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
