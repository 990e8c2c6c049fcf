"""Group commit: items that wait together go to the database in one statement or transaction."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar, cast

from archon.background import BackgroundLoop
from archon.clock import monotonic
from archon.errors import ArchonError, ResourceExhausted, Unavailable
from archon.failure_kinds import STORAGE
from archon_services.postgres.connections import CLOSE_TIMEOUT, DEADLINE, STATEMENT_TIMEOUT, Connection
from archon_services.postgres.errors import RETRY, is_connection_lost, to_archon_error

_log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

MAX_WAITING: Final = 10_000
"""Items that may wait; more raise ResourceExhausted."""

MAX_GROUP: Final = 128
_BACKOFF_MIN: Final = 0.05
_BACKOFF_MAX: Final = 1.0


class _Group(Generic[R]):
    """Results of items that were queued together, and the future that ends with the last of them."""

    __slots__ = ("future", "results", "unresolved")

    def __init__(self, size: int) -> None:
        self.future: asyncio.Future[list[R | ArchonError]] = asyncio.get_running_loop().create_future()
        self.results: list[R | ArchonError | None] = [None] * size
        self.unresolved = size

    def resolve(self, index: int, result: R | ArchonError) -> None:
        if self.results[index] is not None:
            return
        self.results[index] = result
        self.unresolved -= 1
        if not self.unresolved and not self.future.done():
            self.future.set_result(cast("list[R | ArchonError]", self.results))


@dataclass(eq=False, slots=True)
class _Waiting(Generic[T, R]):
    item: T
    group: _Group[R]
    index: int = 0
    since: float = field(default_factory=monotonic)


class GroupCommit(Generic[T, R]):
    """Sends one group at a time over a connection of its own; the next group gathers meanwhile.

    `send` writes a group and returns one result per item, an ArchonError for an item that is refused. It must be
    idempotent: it is repeated after a lost connection, which leaves open whether it succeeded. `key` separates items
    that cannot be in one group: items of equal keys go in separate groups. `address` names the database in messages.
    """

    def __init__(
        self,
        dial: Callable[[], Awaitable[Connection]],
        send: Callable[[Connection, Sequence[T]], Awaitable[Sequence[R | ArchonError]]],
        key: Callable[[T], Hashable],
        *,
        address: str,
    ) -> None:
        self._dial = dial
        self._send = send
        self._key = key
        self._address = address
        self._waiting: deque[_Waiting[T, R]] = deque()
        self._wake = asyncio.Event()
        self._closing = False
        self._connection: Connection | None = None
        self._loop = BackgroundLoop("postgres: group commit", self._send_groups)

    def start(self) -> None:
        """Starts to send. It dials when there is something to send."""
        self._closing = False
        self._loop.start()

    async def do(self, item: T) -> R:
        """Sends an item and returns its result. Raises Unavailable (its message says if the outcome is unknown),
        ResourceExhausted, or the error of the item. Cancelling the caller affects no other item."""
        (result,) = await self.group([item])  # bounded: by DEADLINE in the queue, and again while it is sent
        if isinstance(result, ArchonError):
            raise result
        return result

    def group(self, items: Sequence[T]) -> asyncio.Future[list[R | ArchonError]]:
        """Queues several items under one future, which never fails: an item that is refused has its error as its
        result."""
        group: _Group[R] = _Group(len(items))
        refusal: ArchonError | None = None
        if self._closing or not self._loop.running:
            refusal = Unavailable("the database is closed", retry_delay=RETRY, kind=STORAGE)
        elif len(self._waiting) >= MAX_WAITING:
            refusal = ResourceExhausted("too many writes are queued", retry_delay=RETRY, kind=STORAGE)
        if refusal is not None:
            for index in range(len(items)):
                group.resolve(index, refusal)
            return group.future
        self._waiting.extend(_Waiting(item, group, index) for index, item in enumerate(items))
        self._wake.set()
        return group.future

    async def close(self) -> None:
        """Sends the waiting items for at most DEADLINE seconds, then closes the connection. Idempotent."""
        self._closing = True
        self._wake.set()
        await self._loop.close(grace=DEADLINE, timeout=CLOSE_TIMEOUT)
        self._refuse(list(self._waiting), "the database is closed; nothing was stored")
        self._waiting.clear()
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                await connection.close(timeout=CLOSE_TIMEOUT)
            except Exception:  # noqa: BLE001 - the connection may be lost already
                connection.terminate()

    async def _send_groups(self) -> None:
        """Returns once it is closing and nothing waits."""
        while True:
            while not self._waiting:
                if self._closing:
                    return
                self._wake.clear()
                await self._wake.wait()
            group = self._next_group()
            if not group:
                continue
            try:
                results = await self._send_with_retries([waiting.item for waiting in group])
                for waiting, result in zip(group, results, strict=True):
                    waiting.group.resolve(waiting.index, result)
            except BaseException:
                self._refuse(group, "the write was interrupted; it is unknown whether this was stored")
                raise

    def _next_group(self) -> list[_Waiting[T, R]]:
        """Takes the items that wait longest, one per key. Refuses those past their deadline and skips cancelled
        ones."""
        group: dict[Hashable, _Waiting[T, R]] = {}
        later: list[_Waiting[T, R]] = []
        oldest = time.monotonic() - DEADLINE
        while self._waiting and len(group) < MAX_GROUP:
            waiting = self._waiting.popleft()
            if waiting.group.future.cancelled():
                continue
            if waiting.since < oldest:
                self._refuse([waiting], f"the database at {self._address} does not answer; nothing was stored")
            elif group.setdefault(self._key(waiting.item), waiting) is not waiting:
                later.append(waiting)
        self._waiting.extendleft(reversed(later))
        return list(group.values())

    def _refuse(self, group: Sequence[_Waiting[T, R]], reason: str) -> None:
        for waiting in group:
            waiting.group.resolve(waiting.index, Unavailable(reason, retry_delay=RETRY, kind=STORAGE))

    async def _send_with_retries(self, items: Sequence[T], end: float = 0.0) -> Sequence[R | ArchonError]:
        """Sends a group until its outcome is known, for at most DEADLINE seconds. If the database refuses a group of
        several, sends each item alone, so that one invalid item affects no other."""
        end = end or time.monotonic() + DEADLINE
        backoff, sent = _BACKOFF_MIN, False
        while True:
            if time.monotonic() >= end:
                outcome = "it is unknown whether this was stored" if sent else "nothing was stored"
                text = f"the database at {self._address} is too slow; {outcome}"
                return [Unavailable(text, retry_delay=RETRY, kind=STORAGE) for _ in items]
            try:
                async with asyncio.timeout(min(STATEMENT_TIMEOUT, end - time.monotonic())):
                    connection = self._connection
                    if connection is None or connection.is_closed():
                        connection = self._connection = await self._dial()
                    sent = True
                    return await self._send(connection, items)
            except Exception as error:  # noqa: BLE001 - converted for each caller
                lost = is_connection_lost(error)
                converted = to_archon_error(error, self._address)
                if lost:
                    self._drop_connection()
                if not lost and len(items) > 1:
                    _log.info("sending a group of %d one by one: %s", len(items), converted)
                    return [(await self._send_with_retries([item], end))[0] for item in items]
                if not lost or not sent:
                    return [to_archon_error(error, self._address) for _ in items]
                if time.monotonic() + backoff >= end:
                    text = f"{converted}; it is unknown whether this was stored"
                    return [Unavailable(text, retry_delay=RETRY, kind=STORAGE) for _ in items]
                await asyncio.sleep(backoff)
                backoff = min(_BACKOFF_MAX, backoff * 2)
            except BaseException:
                self._drop_connection()
                raise

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
