"""Keeps entries that the store could not take, durably, until it has taken them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from archon.errors import DataLoss, ResourceExhausted, Unavailable
from archon.failure_kinds import GROWTH, RETRIEVAL
from archon.memory.long_term.entry import LongTermEntry
from archon.memory.long_term.transfer import entry_from_json, entry_to_json
from archon_mesh.memory.long_term.sqlite.database import Database, fetch

if TYPE_CHECKING:
    import apsw

_log = logging.getLogger(__name__)

MAX_ENTRIES: Final = 10_000
MAX_BYTES: Final = 64 * 1024 * 1024
"""Entries that wait, and the bytes of their texts as JSON."""

LOCK_TIMEOUT: Final = 2.0
"""Seconds that a deletion waits for entries that are moving to the store."""

BATCH: Final = 100

_TABLE: Final = """
CREATE TABLE IF NOT EXISTS waiting (
  number INTEGER PRIMARY KEY, tenant TEXT NOT NULL, id TEXT NOT NULL, entry TEXT NOT NULL, size INTEGER NOT NULL,
  damaged INTEGER NOT NULL DEFAULT 0,
  UNIQUE (tenant, id)
)
"""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Entries of one tenant that wait, oldest first."""

    tenant: str
    entries: list[LongTermEntry]


class Outbox:
    """Entries in a SQLite file of this process. `lock` is held while entries move to the store and while they are
    deleted, so that no deleted entry arrives later."""

    def __init__(self, file: Path | str, *, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES) -> None:
        self._database = Database(Path(file), _prepare, name="outbox")
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self.lock = asyncio.Lock()

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Holds the lock. Raises Unavailable if entries are moving to a store that does not answer."""
        try:
            async with asyncio.timeout(LOCK_TIMEOUT):
                await self.lock.acquire()
        except TimeoutError:
            raise Unavailable(
                "entries are moving from the outbox to the store", retry_delay=5.0, kind=RETRIEVAL
            ) from None
        try:
            yield
        finally:
            self.lock.release()

    async def open(self) -> None:
        """Opens the file. Raises Unavailable, DataLoss if it is not a valid database."""
        await self._database.open()

    async def close(self) -> None:
        """Closes the file. Idempotent."""
        await self._database.close()

    async def put(self, tenant: str, entries: Sequence[LongTermEntry]) -> None:
        """Adds entries; ids that wait already stay as they are. Raises ResourceExhausted if the outbox is full."""
        rows = [(tenant, entry.id, json.dumps(entry_to_json(entry), ensure_ascii=False)) for entry in entries]

        def add(db: apsw.Connection) -> None:
            count, size = fetch(db, "SELECT count(*), coalesce(sum(size), 0) FROM waiting")[0]
            added = sum(len(row[2].encode()) for row in rows)
            if count + len(rows) > self._max_entries or size + added > self._max_bytes:
                raise ResourceExhausted(
                    f"the store of long-term memory is down, and its outbox is full: {count:,} of "
                    f"{self._max_entries:,} entries, {size:,} of {self._max_bytes:,} bytes",
                    retry_delay=60.0,
                    kind=GROWTH,
                )
            db.executemany(
                "INSERT OR IGNORE INTO waiting (tenant, id, entry, size) VALUES (?, ?, ?, ?)",
                [(*row, len(row[2].encode())) for row in rows],
            )

        await self._database.write(add)

    async def first(self) -> Waiting | None:
        """Returns the oldest entries of the tenant whose entry is the oldest, or None if nothing waits. Sets entries
        aside that cannot be read."""
        query = (
            "SELECT tenant, entry, number FROM waiting WHERE damaged = 0 AND tenant ="
            " (SELECT tenant FROM waiting WHERE damaged = 0 ORDER BY number LIMIT 1) ORDER BY number LIMIT ?"
        )
        while rows := await self._database.read(lambda db: fetch(db, query, (BATCH,))):
            entries: list[LongTermEntry] = []
            broken: list[int] = []
            for _, text, number in rows:
                try:
                    entries.append(entry_from_json(json.loads(text)))
                except (ValueError, DataLoss) as error:
                    _log.error("an entry in the outbox of long-term memory is set aside: %s", error)
                    broken.append(int(number))
            if broken:
                await self._set_aside(broken)
            if entries:
                return Waiting(str(rows[0][0]), entries)
        return None

    async def count(self, tenant: str | None = None) -> int:
        """Returns how many entries wait, of one tenant or of all."""
        query = "SELECT count(*) FROM waiting WHERE damaged = 0 AND (?1 IS NULL OR tenant = ?1)"
        return int((await self._database.read(lambda db: fetch(db, query, (tenant,))))[0][0])

    async def remove(self, tenant: str, entry_ids: Sequence[str]) -> int:
        """Removes entries; returns the number of those that waited."""

        def delete(db: apsw.Connection) -> int:
            before = db.total_changes()
            db.executemany(
                "DELETE FROM waiting WHERE tenant = ? AND id = ?", [(tenant, entry_id) for entry_id in entry_ids]
            )
            return db.total_changes() - before

        return await self._database.write(delete)

    async def forget(self, tenant: str, metadata: Mapping[str, str]) -> int:
        """Removes the entries with these pairs of metadata, also from the files; returns their number."""

        def matching(db: apsw.Connection) -> list[str]:
            rows = fetch(db, "SELECT id, entry FROM waiting WHERE tenant = ?", (tenant,))
            return [str(row[0]) for row in rows if _has(row[1], metadata)]

        removed = await self.remove(tenant, await self._database.read(matching))
        await self._database.alone(lambda connection: fetch(connection, "PRAGMA wal_checkpoint(TRUNCATE)"))
        return removed

    async def set_aside(self, tenant: str, entry_id: str) -> None:
        """Keeps an entry that the store refuses, and does not return it any more."""
        await self._database.write(
            lambda db: db.execute("UPDATE waiting SET damaged = 1 WHERE tenant = ? AND id = ?", (tenant, entry_id))
        )

    async def _set_aside(self, numbers: Sequence[int]) -> None:
        await self._database.write(
            lambda db: db.executemany("UPDATE waiting SET damaged = 1 WHERE number = ?", [(n,) for n in numbers])
        )


def _has(entry_json: str, metadata: Mapping[str, str]) -> bool:
    """Whether an entry has these pairs of metadata. One that cannot be read counts as such: it must not outlive its
    possible owner."""
    try:
        return metadata.items() <= dict(json.loads(entry_json)["metadata"]).items()
    except (ValueError, LookupError, TypeError):
        return True


def _prepare(connection: apsw.Connection) -> None:
    connection.execute(_TABLE)
    check = fetch(connection, "PRAGMA quick_check(1)")
    if check[0][0] != "ok":
        raise DataLoss(f"the outbox of long-term memory is damaged: {check[0][0]}")
