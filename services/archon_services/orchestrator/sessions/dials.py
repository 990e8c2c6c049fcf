"""Bounds the cost of dialling instances, so that dead ones delay no other.

A dial to an instance that has not answered yet, or not the last time, begins with a greeting: a TCP connection that
sends the preface of HTTP/2 and waits for the first byte. It costs a tiny part of a gRPC channel, and tells that nothing
listens at the address, or that the listener does not answer. Greetings and dials, first and repeated ones, each have a
number of places. One that succeeds gives its place back at once; one that fails keeps it for a minimum time, which
bounds the failures per second. Of those that wait for a place, instances that have answered before go first, then those
with the fewest failures, of first dials the newest.
"""

from __future__ import annotations

import asyncio
import heapq
import ipaddress
import ssl
from functools import cache
from itertools import count
from typing import Final, NamedTuple

from archon.errors import Unavailable
from archon.security.certificates import own_folder

MAX_OPENING: Final = 64
"""Streams of a process that may wait for Ready at a time. If a thousand opened at once, none would be answered within
its time."""

MAX_REDIALLING: Final = 16
"""Streams that may wait for Ready at a time to instances that did not answer the last time."""

MAX_GREETINGS: Final = 256
"""Greetings at a time: first ones, and as many to instances that did not answer the last time."""

FIRST_GREETING_PLACE: Final = 0.5
"""Seconds for which a first greeting that fails keeps its place: at most 512 fail per second, up to 10 % of a core."""

GREETING_PLACE: Final = 4.0
"""The same for a repeated greeting: at most 64 fail per second, up to 2 % of a core, however many are dead."""

FIRST_PLACE: Final = 2.0
"""The same for a first dial, whose greeting has been answered or which has none."""

REDIAL_PLACE: Final = 4.0
"""The same for a repeated dial."""

_GREETING: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""The preface of an HTTP/2 client: the magic text and an empty SETTINGS frame. A server answers with its SETTINGS."""


class Turn(NamedTuple):
    """Decides when an instance is dialled: whether it has answered before, and its failures in a row."""

    answered: bool
    failures: int


class Place:
    """One of a queue's places, taken by a dial."""

    def __init__(self, queue: DialQueue, until: float) -> None:
        self._queue = queue
        self._until = until
        self._taken = True

    def give_back(self) -> None:
        """The instance has answered. Idempotent."""
        if self._taken:
            self._taken = False
            self._queue.give_back()

    def end(self) -> None:
        """The dial has ended: if the instance has not answered, the place is given back after its minimum time."""
        if self._taken:
            self._taken = False
            asyncio.get_running_loop().call_at(self._until, self._queue.give_back)


class DialQueue:
    """A number of places. One whose dial fails is kept for `minimum` seconds."""

    def __init__(self, places: int, minimum: float) -> None:
        self._free = places
        self._minimum = minimum
        self._waiting: list[tuple[bool, int, int, asyncio.Future[None]]] = []
        self._cancelled = 0
        self._tickets = count(1)

    async def take(self, turn: Turn) -> Place:
        """Waits for a place, in the order of turns, and returns it. Give it back."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(turn)
        return Place(self, asyncio.get_running_loop().time() + self._minimum)

    async def _wait(self, turn: Turn) -> None:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ticket = next(self._tickets)
        order = ticket if turn.failures else -ticket
        heapq.heappush(self._waiting, (not turn.answered, turn.failures, order, place))
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.give_back()
            else:
                self._forget_cancelled()
            raise

    def give_back(self) -> None:
        """Passes a place on to the first that waits."""
        while self._waiting:
            *_, place = heapq.heappop(self._waiting)
            if not place.done():
                place.set_result(None)
                return
            self._cancelled -= 1
        self._free += 1

    def _forget_cancelled(self) -> None:
        self._cancelled += 1
        if self._cancelled > len(self._waiting) // 2:
            self._waiting = [entry for entry in self._waiting if not entry[3].done()]
            heapq.heapify(self._waiting)
            self._cancelled = 0


class Dials:
    """The queues of one process."""

    def __init__(self) -> None:
        self.first_greetings = DialQueue(MAX_GREETINGS, FIRST_GREETING_PLACE)
        self.repeated_greetings = DialQueue(MAX_GREETINGS, GREETING_PLACE)
        self.first = DialQueue(MAX_OPENING, FIRST_PLACE)
        self.repeated = DialQueue(MAX_REDIALLING, REDIAL_PLACE)

    async def take(self, turn: Turn) -> Place:
        """Waits for a place for a stream before it is opened."""
        return await (self.repeated if turn.failures else self.first).take(turn)

    async def greet(self, address: str, turn: Turn, timeout: float) -> None:
        """Waits for a place, then greets the server at host:port. A host that is a name is not greeted, since to look
        it up may take long. Raises Unavailable if it does not answer within `timeout` seconds."""
        target = _ip_address(address)
        if target is None:
            return
        queue = self.repeated_greetings if turn.failures else self.first_greetings
        place = await queue.take(turn)
        try:
            await _greet(*target, timeout)
            place.give_back()
        except TimeoutError:
            raise Unavailable(f"{address} did not answer a connection") from None
        except OSError as error:
            raise Unavailable(f"{address} refuses connections: {error.strerror or error}") from None
        finally:
            place.end()


async def _greet(host: str, port: int, timeout: float) -> None:
    encrypted = own_folder() is not None
    async with asyncio.timeout(timeout):
        reader, writer = await asyncio.open_connection(host, port, ssl=_handshake() if encrypted else None)
        try:
            if encrypted:
                return  # it has answered the handshake
            writer.write(_GREETING)
            if not await reader.read(1):
                raise ConnectionResetError("the connection was closed")
        finally:
            writer.transport.abort()


@cache
def _handshake() -> ssl.SSLContext:
    """A handshake that verifies nothing and shows no certificate: nothing is sent on the connection."""
    handshake = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    handshake.check_hostname = False
    handshake.verify_mode = ssl.CERT_NONE
    handshake.set_alpn_protocols(["h2"])
    return handshake


def _ip_address(address: str) -> tuple[str, int] | None:
    """Returns the IP address and port of host:port; None if the host is a name."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        ipaddress.ip_address(host)
        return host, int(port)
    except ValueError:
        return None
