"""Long-term memory in a SQLite file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from archon.memory.long_term.entry import LongTermEntry, LongTermStats
from archon_mesh.memory.long_term.port import (
    MAX_BATCH,
    NO_FILTERS,
    Change,
    Filters,
    LongTermStore,
    StoredVector,
)
from archon_mesh.memory.long_term.sqlite import writes
from archon_mesh.memory.long_term.sqlite.database import Database, fetch
from archon_mesh.memory.long_term.sqlite.rows import condition, embedder_number, to_entry
from archon_mesh.memory.long_term.sqlite.schema import COLUMNS

if TYPE_CHECKING:
    import apsw

_MAX_NEAREST: Final = 4_096
"""Neighbours that sqlite-vec returns at most."""

Row = Sequence[Any]


class SqliteLongTermStore(LongTermStore):
    """Entries in one SQLite file (WAL, synchronous), vectors in sqlite-vec, words in FTS5 with Porter stemming.

    `:memory:` is a store that its end empties. Needs the extra `long-term`. Other processes may use the file at the
    same time.
    """

    def __init__(self, file: Path | str) -> None:
        self._database = Database(Path(file), writes.prepare)

    @override
    async def open(self) -> None:
        await self._database.open()

    @override
    async def close(self) -> None:
        await self._database.close()

    @override
    async def insert(
        self, tenant: str, entries: Sequence[LongTermEntry], vectors: Sequence[StoredVector | None]
    ) -> int:
        return await self._database.write(lambda db: writes.insert(db, tenant, entries, vectors))

    @override
    async def embed(self, tenant: str, vectors: Mapping[str, StoredVector]) -> None:
        await self._database.write(lambda db: writes.embed(db, tenant, vectors))

    @override
    async def unembedded(self, embedder: str, limit: int) -> list[tuple[str, LongTermEntry]]:
        # Two ranges of an index, where one condition with != would read the whole table.
        ranges = [
            f"SELECT tenant, {COLUMNS} FROM entries WHERE embedder {compared} ?1 AND archived = 0 AND damaged = 0"
            for compared in ("<", ">")
        ]
        query = " UNION ALL ".join(ranges) + " LIMIT ?2"
        rows = await self._database.read(lambda db: fetch(db, query, (embedder, limit)))
        found = []
        for row in rows:
            for entry in await self._intact(str(row[0]), [row[1:]]):
                found.append((str(row[0]), entry))
        return found

    @override
    async def get(self, tenant: str, entry_ids: Sequence[str]) -> list[LongTermEntry]:
        marks = ", ".join("?" * len(entry_ids))
        query = f"SELECT {COLUMNS} FROM entries WHERE tenant = ? AND damaged = 0 AND id IN ({marks})"
        return await self._entries(tenant, query, [tenant, *entry_ids])

    @override
    async def nearest(
        self, tenant: str, query: StoredVector, limit: int, filters: Filters = NO_FILTERS
    ) -> list[tuple[LongTermEntry, float]]:
        def search(db: apsw.Connection) -> list[Row]:
            table = embedder_number(db, query.embedder, len(query.vector))
            if table is None:
                return []
            arguments: list[Any] = [query.vector.tobytes(), min(limit, _MAX_NEAREST), tenant]
            only = ""
            if filters.metadata:
                text, more = condition(tenant, filters)
                only = f" AND rowid IN (SELECT number FROM entries WHERE {text})"
                arguments += more
            nearest = (
                f"SELECT rowid AS found, distance FROM vectors_{table}"
                f" WHERE embedding MATCH ? AND k = ? AND tenant = ?{only}"
            )
            # The order of the columns of to_entry, then the distance. The subquery runs first: it is a virtual table.
            return fetch(
                db,
                f"WITH nearest AS MATERIALIZED ({nearest}) SELECT {COLUMNS}, distance FROM nearest"
                " JOIN entries ON number = found WHERE damaged = 0 ORDER BY distance, number",
                arguments,
            )

        rows = await self._database.read(search)
        entries = {entry.id: entry for entry in await self._intact(tenant, rows)}
        return [(entries[row[0]], 1.0 - float(row[-1]) ** 2 / 2) for row in rows if row[0] in entries]

    @override
    async def with_words(
        self, tenant: str, words: Sequence[str], limit: int, filters: Filters = NO_FILTERS
    ) -> list[LongTermEntry]:
        if not words:
            return []
        match = " OR ".join('"' + word.replace('"', '""') + '"' for word in words)
        text, arguments = condition(tenant, filters)
        query = (
            f"SELECT {COLUMNS} FROM words JOIN entries ON number = words.rowid"
            f" WHERE words MATCH ? AND {text} ORDER BY bm25(words), number LIMIT ?"
        ).replace(" content,", " entries.content,", 1)
        return await self._entries(tenant, query, [match, *arguments, limit])

    @override
    async def recent(self, tenant: str, limit: int, filters: Filters = NO_FILTERS) -> list[LongTermEntry]:
        text, arguments = condition(tenant, filters)
        query = f"SELECT {COLUMNS} FROM entries WHERE {text} ORDER BY create_time DESC, number DESC LIMIT ?"
        return await self._entries(tenant, query, [*arguments, limit])

    @override
    async def least_valuable(self, tenant: str, limit: int, *, archived: bool) -> list[LongTermEntry]:
        query = (
            f"SELECT {COLUMNS} FROM entries WHERE tenant = ? AND damaged = 0 AND archived = ?"
            " ORDER BY coalesce(last_used, create_time) LIMIT ?"
        )
        return await self._entries(tenant, query, [tenant, int(archived), limit])

    @override
    async def page(self, tenant: str, after: str, limit: int) -> list[LongTermEntry]:
        query = f"SELECT {COLUMNS} FROM entries WHERE tenant = ? AND damaged = 0 AND id > ? ORDER BY id LIMIT ?"
        return await self._entries(tenant, query, [tenant, after, limit])

    @override
    async def change(self, tenant: str, changes: Sequence[Change]) -> int:
        return await self._database.write(lambda db: writes.change(db, tenant, changes))

    @override
    async def delete(self, tenant: str, entry_ids: Sequence[str]) -> int:
        return await self._database.write(lambda db: writes.delete(db, tenant, entry_ids))

    @override
    async def forget(self, tenant: str, metadata: Mapping[str, str]) -> int:
        forgotten = await self._database.write(lambda db: writes.forget(db, tenant, metadata))
        await self._database.alone(writes.erase_deleted)
        return forgotten

    @override
    async def damaged(self, tenant: str, limit: int = MAX_BATCH) -> list[str]:
        query = "SELECT id FROM entries WHERE tenant = ? AND damaged = 1 ORDER BY id LIMIT ?"
        rows = await self._database.read(lambda db: fetch(db, query, (tenant, limit)))
        return [str(row[0]) for row in rows]

    @override
    async def stats(self, tenant: str) -> LongTermStats:
        query = (
            "SELECT coalesce(sum(NOT archived AND NOT damaged), 0), coalesce(sum(archived AND NOT damaged), 0),"
            " coalesce(sum(NOT archived AND NOT damaged AND embedder = ''), 0), coalesce(sum(damaged), 0),"
            " coalesce(sum(octet_length(content)), 0) FROM entries WHERE tenant = ?"
        )
        row = (await self._database.read(lambda db: fetch(db, query, (tenant,))))[0]
        return LongTermStats(
            active=int(row[0]), archived=int(row[1]), pending=int(row[2]), damaged=int(row[3]), bytes=int(row[4])
        )

    @override
    async def tenants(self) -> list[str]:
        query = "SELECT DISTINCT tenant FROM entries ORDER BY tenant"
        return [str(row[0]) for row in await self._database.read(lambda db: fetch(db, query))]

    @override
    async def note(self, key: str) -> str | None:
        rows = await self._database.read(lambda db: fetch(db, "SELECT value FROM meta WHERE key = ?", (key,)))
        return str(rows[0][0]) if rows else None

    @override
    async def set_note(self, key: str, text: str) -> None:
        await self._database.write(lambda db: db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, text)))

    async def _entries(self, tenant: str, query: str, arguments: Sequence[Any]) -> list[LongTermEntry]:
        rows = await self._database.read(lambda db: fetch(db, query, list(arguments)))
        return await self._intact(tenant, rows)

    async def _intact(self, tenant: str, rows: Iterable[Row]) -> list[LongTermEntry]:
        """Converts rows; sets those aside that are damaged."""
        intact: list[LongTermEntry] = []
        broken: list[str] = []
        for row in rows:
            entry = to_entry(row)
            if entry is None:
                broken.append(str(row[0]))
            else:
                intact.append(entry)
        if broken:
            await self._database.write(lambda db: writes.set_aside(db, tenant, broken))
        return intact
