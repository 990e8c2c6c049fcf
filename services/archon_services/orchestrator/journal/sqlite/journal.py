"""The journal in a SQLite file (WAL), for one orchestrator at a time: an OS lock on the file says whose it is."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from archon.errors import DataLoss, FailedPrecondition
from archon_services.common.sqlite_writer import SqliteWriter
from archon_services.orchestrator.journal import session_history as turns
from archon_services.orchestrator.journal.memory.journal import same_request
from archon_services.orchestrator.journal.rows import Append, NewRun, OutboxRow, Outcome, Publication, RunRow
from archon_services.orchestrator.journal.session_history import Conversation, conversation_of
from archon_services.orchestrator.journal.sqlite.append import run_row, store_append
from archon_services.orchestrator.journal.sqlite.owners import SqliteOwners
from archon_services.orchestrator.journal.sqlite.schema import RUN_COLUMNS, TABLES, UPGRADES, VERSION

CHECKPOINT_BYTES = 8 * 1024 * 1024


class SqliteJournal(SqliteOwners):
    """`sync` is `full` (an fsync per commit: survives a power cut) or `normal` (survives kill -9; a power cut may take
    the last commits, though never half of one)."""

    def __init__(self, path: Path, *, sync: Literal["full", "normal"] = "full") -> None:
        self._path = path
        self.durability: str = sync
        self._lock_file: int | None = None
        self._writer: SqliteWriter | None = None
        self._connection: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._reading = threading.Lock()
        self._checkpoints: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Raises FailedPrecondition where another process holds the file or a newer version wrote it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._lock_file = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock_file)
            self._lock_file = None
            raise FailedPrecondition(f"the journal {self._path} is in use by another orchestrator") from None
        self._connection = self._connect()
        self._connection.executescript(TABLES)
        self._connection.execute("INSERT OR IGNORE INTO meta VALUES ('version', ?)", (str(VERSION),))
        (version,) = self._connection.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
        if int(version) > VERSION:
            raise FailedPrecondition(f"the journal {self._path} was written by a newer version of Archon")
        for older in range(int(version), VERSION):
            upgrade = f"{UPGRADES[older]} UPDATE meta SET value = '{older + 1}' WHERE key = 'version';"
            self._connection.executescript(f"BEGIN IMMEDIATE; {upgrade} COMMIT;")
        self._reader = self._connect()
        self._writer = SqliteWriter(self._connection, inline=self.durability == "normal")
        self._checkpoints = asyncio.create_task(self._checkpoint_now_and_then(), name="journal-checkpoints")

    def _connect(self) -> sqlite3.Connection:
        try:
            db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=5)
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.DatabaseError as error:
            raise DataLoss(f"the journal {self._path} can't be read: {error}") from error
        db.execute(f"PRAGMA synchronous = {self.durability.upper()}")
        db.execute("PRAGMA wal_autocheckpoint = 0")  # a thread of its own does them
        db.execute("PRAGMA temp_store = MEMORY")
        return db

    async def close(self) -> None:
        """Commits what waits, then lets go of the file. Idempotent."""
        if self._checkpoints is not None:
            self._checkpoints.cancel()
            await asyncio.gather(self._checkpoints, return_exceptions=True)
        if self._writer is not None:
            await asyncio.to_thread(self._writer.close)
        for db in (self._reader, self._connection):
            if db is not None:
                db.close()
        if self._lock_file is not None:
            os.close(self._lock_file)
        self._writer = self._reader = self._connection = self._lock_file = None

    async def _checkpoint_now_and_then(self) -> None:
        wal = Path(f"{self._path}-wal")
        while True:
            await asyncio.sleep(1.0)
            await asyncio.to_thread(self._checkpoint, wal)

    def _checkpoint(self, wal: Path) -> None:
        if not wal.exists() or wal.stat().st_size < CHECKPOINT_BYTES:
            return
        db = self._connect()
        try:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            db.close()

    async def _write(self, work: Any, *, full: bool = False) -> Any:
        assert self._writer is not None, "the journal isn't open"
        return await self._writer.do(work, full=full)

    async def _read(self, sql: str, parameters: Sequence[object] = ()) -> list[Any]:
        """All rows at once: no cursor stays open while somebody else waits for the network."""

        def fetch() -> list[Any]:
            assert self._reader is not None, "the journal isn't open"
            with self._reading:
                return self._reader.execute(sql, parameters).fetchall()

        return await asyncio.to_thread(fetch)

    async def create(self, new: NewRun, first: Append) -> tuple[str, bool]:
        """See the port."""

        def work(db: sqlite3.Connection) -> tuple[str, bool]:
            if new.request_id:
                known = db.execute(
                    "SELECT payload_hash, run_id FROM requests WHERE tenant = ? AND request_id = ?",
                    (new.tenant, new.request_id),
                ).fetchone()
                if known is not None:
                    return same_request(known[0], new, known[1])
                db.execute(
                    "INSERT INTO requests (tenant, request_id, payload_hash, run_id) VALUES (?, ?, ?, ?)",
                    (new.tenant, new.request_id, new.payload_hash, new.run_id),
                )
            db.execute(
                f"INSERT INTO runs ({RUN_COLUMNS}, batch_id) VALUES (?, ?, ?, ?, ?, 0, ?, ?, 0, 0, x'', ?, 0, '')",
                (
                    new.run_id,
                    new.tenant,
                    new.session_id,
                    new.owner,
                    first.epoch,
                    first.state,
                    first.time,
                    new.revision,
                ),
            )
            store_append(db, first)
            return new.run_id, True

        result: tuple[str, bool] = await self._write(work)
        return result

    async def request(self, tenant: str, request_id: str) -> tuple[bytes, str] | None:
        """See the port."""
        sql = "SELECT payload_hash, run_id FROM requests WHERE tenant = ? AND request_id = ?"
        rows = await self._read(sql, (tenant, request_id))
        return (rows[0][0], rows[0][1]) if rows else None

    async def append(self, append: Append) -> Outcome:
        """See the port."""

        def work(db: sqlite3.Connection) -> Outcome:
            return store_append(db, append)

        outcome: Outcome = await self._write(work)
        return outcome

    async def conversation(self, tenant: str, session_id: str, role: str) -> Conversation:
        """See the port."""
        return conversation_of(await self._read(turns.READ, (tenant, session_id, role)))

    async def events(self, run_id: str, after_seq: int, limit: int = 500) -> list[bytes]:
        """See the port."""
        sql = "SELECT data FROM events WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?"
        return [row[0] for row in await self._read(sql, (run_id, after_seq, limit))]

    async def inputs(self, run_id: str) -> list[tuple[int, bytes]]:
        """See the port."""
        return await self._read("SELECT last_seq, data FROM inputs WHERE run_id = ? ORDER BY last_seq", (run_id,))

    async def run(self, run_id: str) -> RunRow | None:
        """See the port."""
        rows = await self._read(f"SELECT {RUN_COLUMNS} FROM runs WHERE run_id = ?", (run_id,))
        return run_row(rows[0]) if rows else None

    async def runs(
        self,
        *,
        tenant: str,
        session_id: str = "",
        states: Sequence[int] = (),
        before: tuple[float, str] | None = None,
        limit: int = 100,
    ) -> list[RunRow]:
        """See the port."""
        where, values = ["tenant = ?"], [tenant]
        parameters: list[object] = list(values)
        if session_id:
            where.append("session_id = ?")
            parameters.append(session_id)
        if states:
            where.append(f"state IN ({', '.join('?' * len(states))})")
            parameters += states
        if before is not None:
            where.append("(created_at, run_id) < (?, ?)")
            parameters += before
        sql = (
            f"SELECT {RUN_COLUMNS} FROM runs WHERE {' AND '.join(where)} ORDER BY created_at DESC, run_id DESC LIMIT ?"
        )
        return [run_row(row) for row in await self._read(sql, [*parameters, limit])]

    async def records(
        self, run_id: str, *, role: str = "", after: int = 0, limit: int = 100
    ) -> list[tuple[int, bytes]]:
        """See the port."""
        sql = """
            SELECT n, data FROM (
              SELECT row_number() OVER (ORDER BY ordinal) AS n, role, data FROM records WHERE run_id = ?
            ) WHERE n > ? AND (? = '' OR role = ?) ORDER BY n LIMIT ?
        """
        return [(row[0], row[1]) for row in await self._read(sql, (run_id, after, role, role, limit))]

    async def outbox(self, owner: str, limit: int = 100) -> list[OutboxRow]:
        """See the port. Nobody else lives."""
        sql = "SELECT row_id, run_id, epoch, scope, role, task_id, seq, content FROM outbox ORDER BY row_id LIMIT ?"
        return [OutboxRow(row[0], row[1], row[2], Publication(*row[3:])) for row in await self._read(sql, (limit,))]

    async def unpublished(self, scope: str) -> bool:
        """See the port."""
        return bool(await self._read("SELECT 1 FROM outbox WHERE scope = ? LIMIT 1", (scope,)))

    async def published(self, row_ids: Sequence[int]) -> None:
        """See the port."""
        marks = ", ".join("?" * len(row_ids))
        await self._write(lambda db: db.execute(f"DELETE FROM outbox WHERE row_id IN ({marks})", list(row_ids)))

    async def compactable(self, ended_before: float, limit: int = 100) -> list[str]:
        """See the port."""
        sql = "SELECT run_id FROM runs WHERE ended_at > 0 AND ended_at < ? AND compacted = 0 LIMIT ?"
        return [row[0] for row in await self._read(sql, (ended_before, limit))]

    async def compact(self, run_id: str, summary: bytes) -> None:
        """See the port."""

        def work(db: sqlite3.Connection) -> None:
            db.execute("UPDATE runs SET compacted = 1, summary = ? WHERE run_id = ?", (summary, run_id))
            for table in ("events", "inputs", "records"):
                db.execute(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))

        await self._write(work)

    async def delete(self, ended_before: float, now: float, request_ttl: float) -> int:
        """See the port."""

        def work(db: sqlite3.Connection) -> int:
            gone = "SELECT run_id FROM runs WHERE ended_at > 0 AND ended_at < ?"
            db.execute("DELETE FROM requests WHERE expires_at > 0 AND expires_at < ?", (now,))
            db.execute("DELETE FROM turns WHERE time < ?", (ended_before,))
            db.execute(
                f"UPDATE requests SET expires_at = ? WHERE run_id IN ({gone})", (now + request_ttl, ended_before)
            )
            for table in ("events", "inputs", "records"):
                db.execute(f"DELETE FROM {table} WHERE run_id IN ({gone})", (ended_before,))
            return db.execute("DELETE FROM runs WHERE ended_at > 0 AND ended_at < ?", (ended_before,)).rowcount

        deleted: int = await self._write(work)
        return deleted
