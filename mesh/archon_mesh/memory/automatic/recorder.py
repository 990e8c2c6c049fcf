"""Stores the entries of runs. Entries that a memory cannot take wait in this process, and never fail a run."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Sequence
from typing import Final

from archon.errors import AlreadyExists, ArchonError, InvalidArgument, ResourceExhausted, Unimplemented
from archon_mesh.memory.automatic.access import MemoryAccess
from archon_mesh.memory.long_term.entry_writer import NewEntry

MAX_WAITING: Final = 1_000
MAX_BYTES: Final = 4 * 1024 * 1024
"""Entries that wait, and the bytes of their texts; the oldest are dropped."""

BATCH: Final = 10
"""Entries that wait and are stored together with a run's: all have the time of one call."""

FLUSH_LIMIT: Final = 10.0
"""Seconds that closing an agent takes at most to store the waiting entries."""

_REFUSED: Final = (InvalidArgument, AlreadyExists, Unimplemented)
_log = logging.getLogger(__name__)


class Recorder:
    """Stores entries, each once, however often it is tried."""

    def __init__(self, access: MemoryAccess, *, max_waiting: int = MAX_WAITING, max_bytes: int = MAX_BYTES) -> None:
        self._access = access
        self._max_waiting = max_waiting
        self._max_bytes = max_bytes
        self._waiting: deque[NewEntry] = deque()
        self._bytes = 0

    @property
    def waiting(self) -> int:
        """The number of entries that wait."""
        return len(self._waiting)

    async def store(self, entries: Sequence[NewEntry], *, is_down: bool = False) -> None:
        """Stores entries, and some of those that wait. Never raises. If the memory is down, a served one is not called:
        the run has waited for it already. A local one has an outbox."""
        if is_down and not self._access.is_local:
            self._put(entries)
            return
        batch = self._take() + list(entries)
        if batch:
            await self._store(batch)

    async def flush(self) -> None:
        """Tries once more to store the waiting entries, as far as it can within FLUSH_LIMIT. Never raises."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_LIMIT):
                while batch := self._take():
                    before = self.waiting + len(batch)
                    await self._store(batch)
                    if self.waiting >= before:
                        return

    async def _store(self, batch: list[NewEntry]) -> None:
        try:
            await self._access.store(batch)
        except ArchonError as error:
            if not _is_refused(error):
                _log.info("%d memories wait: %s", len(batch), error)
                self._put(batch)
            elif len(batch) > 1:
                for entry in batch:  # one entry that is refused must not take the others with it
                    await self._store([entry])
            elif not isinstance(error, AlreadyExists):
                _log.warning("a memory is not stored: %s", error)
        except BaseException:
            self._put(batch)
            raise

    def _take(self) -> list[NewEntry]:
        taken = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
        self._bytes -= sum(map(_size, taken))
        return taken

    def _put(self, entries: Sequence[NewEntry]) -> None:
        self._waiting.extend(entries)
        self._bytes += sum(map(_size, entries))
        dropped = 0
        while self._waiting and (len(self._waiting) > self._max_waiting or self._bytes > self._max_bytes):
            self._bytes -= _size(self._waiting.popleft())
            dropped += 1
        if dropped:
            _log.warning("%d memories that waited for the long-term memory are dropped", dropped)


def _size(entry: NewEntry) -> int:
    return len(entry.content.encode(errors="surrogatepass"))


def _is_refused(error: ArchonError) -> bool:
    return isinstance(error, _REFUSED) or (isinstance(error, ResourceExhausted) and error.reason == "MESSAGE_TOO_LARGE")
