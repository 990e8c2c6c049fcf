"""Group commit: what waits together goes to the database in one statement, and so in one transaction."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar, cast

from archon.errors import ArchonError, ResourceExhausted, Unavailable
from archon_services.postgres.connections import CLOSE_TIMEOUT, DEADLINE, STATEMENT_TIMEOUT, Connection
from archon_services.postgres.errors import RETRY, explained, is_lost

_log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

MAX_WAITING: Final = 10_000
"""So much may wait; above it ResourceExhausted."""

MAX_GROUP: Final = 128
_BACKOFF: Final = 0.05
_MAX_BACKOFF: Final = 1.0


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
    since: float = field(default_factory=time.monotonic)


class Lane(Generic[T, R]):
    """One connection of its own, and one statement under way on it; meanwhile the next group gathers.

    `send` writes a group and tells what became of each item, an error of our tree where one was refused. It must come
    to the same when it is repeated, since a connection that is lost leaves open whether it succeeded. `key` keeps
    apart what can't go together: items of one key go in separate groups.
    """

    def __init__(
        self,
        dial: Callable[[], Awaitable[Connection]],
        send: Callable[[Connection, Sequence[T]], Awaitable[Sequence[R | ArchonError]]],
        key: Callable[[T], Hashable],
        *,
        where: str,
    ) -> None:
        self._dial = dial
        self._send = send
        self._key = key
        self._where = where
        self._waiting: deque[_Waiting[T, R]] = deque()
        self._news = asyncio.Event()
        self._closing = False
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to serve; it dials when there is something to send."""
        self._closing = False
        self._task = asyncio.create_task(self._serve(), name="postgres: lane")

    async def do(self, item: T) -> R:
        """What became of the item. Raises Unavailable (it says so where it isn't known whether it is stored),
        ResourceExhausted, or the error that the item itself brought. A caller who leaves hurts nobody."""
        (result,) = await self.group([item])  # bounded: by DEADLINE in the queue, and once more under way
        if isinstance(result, ArchonError):
            raise result
        return result

    def group(self, items: Sequence[T]) -> asyncio.Future[list[R | ArchonError]]:
        """Queues several items under one future, which never fails: an item that is refused has its error as its
        result."""
        group: _Group[R] = _Group(len(items))
        refusal: ArchonError | None = None
        if self._closing or self._task is None:
            refusal = Unavailable("the database is closed", retry_delay=RETRY)
        elif len(self._waiting) >= MAX_WAITING:
            refusal = ResourceExhausted("too many writes are queued", retry_delay=RETRY)
        if refusal is not None:
            for index in range(len(items)):
                group.resolve(index, refusal)
            return group.future
        self._waiting.extend(_Waiting(item, group, index) for index, item in enumerate(items))
        self._news.set()
        return group.future

    async def close(self) -> None:
        """Sends what waits, at most DEADLINE seconds long, then lets go. Idempotent."""
        self._closing = True
        self._news.set()
        if self._task is not None:
            done, _ = await asyncio.wait([self._task], timeout=DEADLINE)
            if not done:
                self._task.cancel()
                await asyncio.wait([self._task], timeout=CLOSE_TIMEOUT)
            self._task = None
        self._refuse(list(self._waiting), "the database is closed; nothing was stored")
        self._waiting.clear()
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                await connection.close(timeout=CLOSE_TIMEOUT)
            except Exception:  # noqa: BLE001 - it may be gone already
                connection.terminate()

    async def _serve(self) -> None:
        while True:
            while not self._waiting:
                if self._closing:
                    return
                self._news.clear()
                await self._news.wait()
            group = self._next_group()
            if not group:
                continue
            try:
                results = await self._carry([one.item for one in group])
            except BaseException:
                self._refuse(group, "the database is closed; it isn't known whether this was stored")
                raise
            for one, result in zip(group, results, strict=True):
                one.group.resolve(one.index, result)

    def _next_group(self) -> list[_Waiting[T, R]]:
        """The longest waiting, one of each key; what has waited too long is refused, what nobody waits for left out."""
        group: dict[Hashable, _Waiting[T, R]] = {}
        later: list[_Waiting[T, R]] = []
        oldest = time.monotonic() - DEADLINE
        while self._waiting and len(group) < MAX_GROUP:
            one = self._waiting.popleft()
            if one.group.future.cancelled():
                continue
            if one.since < oldest:
                self._refuse([one], f"the database at {self._where} doesn't answer; nothing was stored")
            elif group.setdefault(self._key(one.item), one) is not one:
                later.append(one)
        self._waiting.extendleft(reversed(later))
        return list(group.values())

    def _refuse(self, group: Sequence[_Waiting[T, R]], why: str) -> None:
        for one in group:
            one.group.resolve(one.index, Unavailable(why, retry_delay=RETRY))

    async def _carry(self, items: Sequence[T], end: float = 0.0) -> Sequence[R | ArchonError]:
        """Sends a group until it is known what became of it, at most DEADLINE seconds long. A group of several that the
        database refuses is sent one by one: what is wrong with one hurts no other."""
        end = end or time.monotonic() + DEADLINE
        backoff, sent = _BACKOFF, False
        while True:
            if time.monotonic() >= end:
                return [
                    Unavailable(f"the database at {self._where} is too slow; nothing was stored", retry_delay=RETRY)
                ]
            try:
                async with asyncio.timeout(min(STATEMENT_TIMEOUT, end - time.monotonic())):
                    connection = self._connection
                    if connection is None or connection.is_closed():
                        connection = self._connection = await self._dial()
                    sent = True
                    return await self._send(connection, items)
            except Exception as error:  # noqa: BLE001 - each is explained to those who wait
                lost = is_lost(error)
                if lost:
                    self._drop()
                if not lost and len(items) > 1:
                    _log.info("a group of %d is sent one by one: %s", len(items), explained(error, self._where))
                    return [(await self._carry([item], end))[0] for item in items]
                if not lost or not sent:
                    return [explained(error, self._where) for _ in items]
                if time.monotonic() + backoff >= end:
                    said = f"{explained(error, self._where)}; it isn't known whether this was stored"
                    return [Unavailable(said, retry_delay=RETRY) for _ in items]
                await asyncio.sleep(backoff)
                backoff = min(_MAX_BACKOFF, backoff * 2)
            except BaseException:
                self._drop()
                raise

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
