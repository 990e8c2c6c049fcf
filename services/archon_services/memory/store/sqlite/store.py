"""The store in a SQLite file (WAL), for one process at a time: an OS lock on the file says whose it is.

Reads go through the one writer too: they see every publish that was acknowledged, and never one that wasn't.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, TypeVar

from archon.errors import DataLoss, FailedPrecondition, Unavailable
from archon_services.common.sqlite_writer import Writer
from archon_services.memory.store.feed import Feed
from archon_services.memory.store.port import Publish, Published, StoredItem
from archon_services.memory.store.sql_store import FeedingStore, system_clock, within
from archon_services.memory.store.sqlite import statements
from archon_services.memory.store.sqlite.schema import TABLES, VERSION
from archon_services.memory.store.sqlite.working import SqliteWorking

T = TypeVar("T")

IN_MEMORY: Final = ":memory:"


class SqliteStore(FeedingStore):
    """See MemoryStore. Use it as an async context manager. `path` is a file or `:memory:`; `sync` is `full` (survives a
    power cut) or `normal` (survives kill -9); `clock` gives seconds since the Unix epoch."""

    def __init__(
        self,
        path: str | Path,
        *,
        sync: Literal["full", "normal"] = "full",
        clock: Callable[[], float] = system_clock,
        feed: Feed | None = None,
    ) -> None:
        super().__init__(clock, feed)
        self.working = SqliteWorking(self._do, clock)
        self._path = str(path)
        self._sync = sync
        self._lock_file: int | None = None
        self._db: sqlite3.Connection | None = None
        self._writer: Writer | None = None

    async def __aenter__(self) -> SqliteStore:
        try:
            self._open()
        except BaseException:
            self._let_go()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self.end_watches()
        if self._writer is not None:
            await asyncio.to_thread(self._writer.close)
            self._writer = None
        await self._settled()
        self._let_go()

    def _open(self) -> None:
        if self._path != IN_MEMORY:
            Path(self._path).parent.mkdir(parents=True, exist_ok=True)
            self._lock_file = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FailedPrecondition(f"{self._path} is in use by another memory service") from None
        try:
            self._db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=5)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute(f"PRAGMA synchronous = {self._sync.upper()}")
            self._db.executescript(TABLES)
            self._db.execute("INSERT OR IGNORE INTO meta VALUES ('version', ?)", (str(VERSION),))
            (version,) = self._db.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
        except sqlite3.Error as error:
            raise DataLoss(f"{self._path} can't be opened as a memory store: {error}") from error
        if int(version) > VERSION:
            raise FailedPrecondition(f"{self._path} was written by a newer version of Archon")
        if int(version) < VERSION:  # what an earlier version lacks are tables, and those are there by now
            self._db.execute("UPDATE meta SET value = ? WHERE key = 'version'", (str(VERSION),))
        # Never inline: watchers rely on it that results come back in the order of the commits.
        self._writer = Writer(self._db, inline=False, name="memory store")

    def _let_go(self) -> None:
        if self._db is not None:
            self._db.close()
        if self._lock_file is not None:
            os.close(self._lock_file)
        self._db = self._lock_file = None

    async def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._writer is None:
            raise Unavailable("the memory store is closed", retry_delay=1.0)
        return await self._writer.do(work)

    async def _commit(self, publish: Publish, now: float) -> tuple[list[Published], list[StoredItem]]:
        return await self._do(lambda db: statements.publish(db, publish, now))

    async def _snapshot(self, tenant: str, scope: str) -> list[StoredItem]:
        return await self._do(lambda db: statements.items(db, tenant, scope))

    async def items(self, tenant: str, scope: str) -> list[StoredItem]:
        """See MemoryStore."""
        return await within(self._do(lambda db: statements.items(db, tenant, scope)))

    async def clear(self, tenant: str, scope: str) -> int:
        """See MemoryStore."""
        now = self._clock()
        return await within(self._do(lambda db: statements.clear(db, tenant, scope, now)))

    async def structure(self) -> str:
        """See MemoryStore."""
        sql = "SELECT value FROM meta WHERE key = 'structure'"
        row = await within(self._do(lambda db: db.execute(sql).fetchone()))
        return str(row[0]) if row else ""

    async def save_structure(self, structure: str) -> None:
        """See MemoryStore."""
        sql = "INSERT OR REPLACE INTO meta VALUES ('structure', ?)"
        await within(self._do(lambda db: db.execute(sql, (structure,)).rowcount))
