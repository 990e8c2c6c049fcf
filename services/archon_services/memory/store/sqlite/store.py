"""The store in a SQLite file (WAL), for one process at a time: an OS lock on the file enforces it.

Reads go through the writer too: they see every acknowledged publish, and never one that was not acknowledged.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, TypeVar

from typing_extensions import override

from archon.errors import FailedPrecondition, Unavailable
from archon.failure_kinds import STORAGE
from archon.private_files import private_file, private_folder
from archon_services.common.sqlite_version import open_version, store_compatible_from
from archon_services.common.sqlite_writer import SqliteWriter
from archon_services.common.unusable_file import unusable
from archon_services.memory.domain.items import Publish, PublishOutcome, StoredItem
from archon_services.memory.store.sql_store import ItemFeed, SqlStore, system_clock, with_timeout
from archon_services.memory.store.sqlite import publish_statements as sql
from archon_services.memory.store.sqlite.schema import COMPATIBLE_FROM, TABLES, UPGRADE, VERSION
from archon_services.memory.store.sqlite.working_store import SqliteWorkingStore

T = TypeVar("T")

IN_MEMORY: Final = ":memory:"


class SqliteStore(SqlStore):
    """Implements MemoryStore as an async context manager. `path` is a file or `:memory:`; `sync` is `full` (survives a
    power failure) or `normal` (survives kill -9).

    Entering raises FailedPrecondition if another process uses the file, a newer version wrote it, or it cannot be
    written, and DataLoss if it is not a valid store.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        sync: Literal["full", "normal"] = "full",
        clock: Callable[[], float] = system_clock,
        feed: ItemFeed | None = None,
    ) -> None:
        super().__init__(clock, feed)
        self.working = SqliteWorkingStore(self._do, clock)
        self._path = str(path)
        self._sync = sync
        self._lock_file: int | None = None
        self._db: sqlite3.Connection | None = None
        self._writer: SqliteWriter | None = None

    @override
    async def __aenter__(self) -> SqliteStore:
        try:
            self._open()
        except BaseException:
            self._release()
            raise
        return self

    @override
    async def __aexit__(self, *_: object) -> None:
        self.end_watches()
        if self._writer is not None:
            await asyncio.to_thread(self._writer.close)
            self._writer = None
        await self._finish_publishes()
        self._release()

    def _open(self) -> None:
        try:
            self._open_file()
        except (OSError, sqlite3.Error) as error:
            raise unusable("memory store", Path(self._path), error, "ARCHON_DB") from None

    def _open_file(self) -> None:
        if self._path != IN_MEMORY:
            self._lock()
        self._db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=5)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute(f"PRAGMA synchronous = {self._sync.upper()}")
        self._db.executescript(TABLES)
        version = open_version(self._db, self._path, VERSION)
        if version < VERSION:
            self._db.executescript(UPGRADE)
        if version <= VERSION:
            store_compatible_from(self._db, COMPATIBLE_FROM)
        # Never inline: watchers rely on results in the order of the commits.
        self._writer = SqliteWriter(self._db, inline=False, store_name="memory store")

    def _lock(self) -> None:
        private_folder(Path(self._path).parent)
        self._lock_file = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FailedPrecondition(f"{self._path} is in use by another memory service") from None
        private_file(Path(self._path))

    def _release(self) -> None:
        if self._db is not None:
            self._db.close()
        if self._lock_file is not None:
            os.close(self._lock_file)
        self._db = self._lock_file = None

    async def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._writer is None:
            raise Unavailable("the memory store is closed", retry_delay=1.0, kind=STORAGE)
        return await self._writer.do(work)

    @override
    async def _commit(self, request: Publish, now: float) -> PublishOutcome:
        return await self._do(lambda db: sql.publish(db, request, now))

    @override
    async def _snapshot(self, tenant: str, scope: str) -> list[StoredItem]:
        return await self._do(lambda db: sql.items(db, tenant, scope))

    @override
    async def items(self, tenant: str, scope: str) -> list[StoredItem]:
        return await with_timeout(self._do(lambda db: sql.items(db, tenant, scope)))

    @override
    async def clear(self, tenant: str, scope: str) -> int:
        now = self._clock()
        return await with_timeout(self._do(lambda db: sql.clear(db, tenant, scope, now)))

    @override
    async def load_role_graph(self) -> str:
        query = "SELECT value FROM meta WHERE key = 'structure'"
        row = await with_timeout(self._do(lambda db: db.execute(query).fetchone()))
        return str(row[0]) if row else ""

    @override
    async def save_role_graph(self, graph_json: str) -> None:
        statement = "INSERT OR REPLACE INTO meta VALUES ('structure', ?)"
        await with_timeout(self._do(lambda db: db.execute(statement, (graph_json,)).rowcount))
