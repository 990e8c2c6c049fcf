"""The way to a long-term memory, local or served, that may be down: bounded waits, and opened on first use."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import Context
from typing import Any, Final, Protocol, TypeVar, cast

from archon.clock import monotonic
from archon.errors import ArchonError, DataLoss, Unavailable
from archon.memory.long_term.entry import FoundEntry, LongTermEntry
from archon_mesh.memory.long_term.entry_writer import NewEntry
from archon_mesh.memory.long_term.guard import Guard
from archon_mesh.memory.long_term.memory import LongTermMemory

T = TypeVar("T")

LIMIT: Final = 2.0
"""Seconds that a run waits for a memory that does not answer, before it continues without."""

STORE_LIMIT: Final = 4.0
"""Seconds that the end of a run waits for a local memory, whose embedder and store each have a limit of their own."""

_log = logging.getLogger(__name__)


class LongTerm(Protocol):
    """The calls of a long-term memory that a run needs: LongTermMemory and LongTermMemoryClient have them."""

    async def store(
        self, content: str, metadata: Mapping[str, str] | None = None, importance: float = ..., *, request_id: str = ""
    ) -> str: ...

    async def query(
        self,
        query_text: str,
        limit: int = ...,
        threshold: float | None = None,
        filters: Mapping[str, str] | None = None,
    ) -> list[FoundEntry]: ...

    async def recent(self, limit: int = ..., filters: Mapping[str, str] | None = None) -> list[LongTermEntry]: ...

    async def feedback(self, entry_id: str, useful: bool) -> bool: ...


class OpenableMemory(LongTerm, Protocol):
    """A memory that is opened and closed as an async context manager."""

    async def __aenter__(self) -> Any: ...

    async def __aexit__(self, *_: object) -> None: ...


OpenMemory = Callable[[], OpenableMemory]
"""Creates a memory that is not open yet."""


class MemoryAccess:
    """Calls a memory, each time within a limit. One that does not answer is not called again for a while: all runs
    together wait for it once."""

    def __init__(
        self, memory: LongTerm | OpenMemory, *, limit: float = LIMIT, monotonic: Callable[[], float] = monotonic
    ) -> None:
        """A memory that is given is open, and stays so. One that is created belongs to this object."""
        self._given = memory if hasattr(memory, "query") else None
        self._create = None if hasattr(memory, "query") else memory
        self._limit = limit
        self._guard = Guard("long-term memory", limit=limit, clock=monotonic)
        self._memory: LongTerm | None = cast("LongTerm | None", self._given)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening: asyncio.Lock | None = None
        self._is_reported = False

    @property
    def is_local(self) -> bool:
        """Whether the memory is one of this process, which has a breaker and perhaps an outbox of its own."""
        return isinstance(self._memory, LongTermMemory)

    async def recall(self, operation: Callable[[LongTerm], Awaitable[T]]) -> T | None:
        """Returns the operation's result, or None if the memory is down, which is logged once.

        Raises FailedPrecondition and InvalidArgument if the memory cannot be opened as it is configured.
        """
        try:
            memory = await self._opened()
        except (Unavailable, TimeoutError, DataLoss) as error:
            self._report(error)
            return None
        try:
            if self.is_local:
                async with asyncio.timeout(self._limit):
                    value = await operation(memory)
            else:
                value = await self._guard.call(lambda: operation(memory))
        except (ArchonError, TimeoutError) as error:
            self._report(error)
            return None
        self._is_reported = False
        return value

    async def store(self, entries: Sequence[NewEntry]) -> None:
        """Stores entries one after the other: in a local memory that does not answer, only the first one waits for it.

        Raises Unavailable if they are not all stored, and the error that refuses one of them.
        """
        memory = await self._opened()

        async def store_each() -> None:
            for entry in entries:
                await memory.store(entry.content, entry.metadata, entry.importance, request_id=entry.request_id)

        if not self.is_local:
            return await self._guard.call(store_each)
        try:
            async with asyncio.timeout(STORE_LIMIT):
                await store_each()
        except TimeoutError:
            raise Unavailable(f"no answer of the long-term memory within {STORE_LIMIT:g} s") from None

    async def close(self) -> None:
        """Closes the memory if it was created here; the next call creates it again. Idempotent."""
        if self._create is None or self._memory is None:
            return
        memory, self._memory = cast(OpenableMemory, self._memory), None
        if self._loop is asyncio.get_running_loop():
            await memory.__aexit__(None, None, None)

    def _report(self, error: BaseException) -> None:
        if not self._is_reported:
            self._is_reported = True
            _log.warning("runs continue without long-term memory: %s", error)

    async def _opened(self) -> LongTerm:
        loop = asyncio.get_running_loop()
        if self._create is None:
            return cast(LongTerm, self._given)
        if self._loop is not loop:  # a memory belongs to the event loop that opened it
            self._memory, self._loop, self._opening = None, loop, asyncio.Lock()
        assert self._opening is not None
        async with self._opening:
            if self._memory is None:
                self._memory = await self._guard.call(self._open)
        return self._memory

    async def _open(self) -> LongTerm:
        memory = cast(OpenMemory, self._create)()
        # Its background work must not inherit the deadline and the span of the run that opens it.
        await asyncio.get_running_loop().create_task(memory.__aenter__(), context=Context())
        return memory
