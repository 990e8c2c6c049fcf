"""The journal in a SQLite file (WAL), for one orchestrator at a time: an OS lock on the file excludes others."""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import sqlite3
import threading
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from archon.background import BackgroundLoop
from archon.errors import ArchonError, DataLoss, FailedPrecondition, InvalidArgument
from archon.private_files import private_file, private_folder
from archon_services.common.sqlite_version import open_version, store_compatible_from
from archon_services.common.sqlite_writer import Busy, SqliteWriter, to_archon_error
from archon_services.common.unusable_file import unusable
from archon_services.orchestrator.journal.checksum import checked_inputs, checked_steps, of_run, read_outbox_row
from archon_services.orchestrator.journal.page import OPENING_BYTES, PAGE_BYTES
from archon_services.orchestrator.journal.rows import EndedRun, OutboxRow, RunRow, Step, StepResult, StoredStep
from archon_services.orchestrator.journal.session_history import (
    HISTORY_BYTES,
    HISTORY_TURNS,
    Conversation,
    checked_conversation,
)
from archon_services.orchestrator.journal.sqlite.chains import SqliteChains
from archon_services.orchestrator.journal.sqlite.commit import commit_steps
from archon_services.orchestrator.journal.sqlite.daily_usage import SqliteDailyUsage
from archon_services.orchestrator.journal.sqlite.identity import FileIdentity, check_end, check_is_journal
from archon_services.orchestrator.journal.sqlite.last_commit import LastCommit
from archon_services.orchestrator.journal.sqlite.learning import SqliteLearning
from archon_services.orchestrator.journal.sqlite.retained import SqliteRetained
from archon_services.orchestrator.journal.sqlite.schema import (
    COMPATIBLE_FROM,
    OWN_COLUMNS,
    RUN_COLUMNS,
    TABLES,
    VERSION,
    upgrade,
)
from archon_services.orchestrator.journal.sqlite.track_records import SqliteTrackRecords
from archon_services.orchestrator.journal.sqlite.triggers import SqliteTriggers
from archon_services.orchestrator.journal.sqlite.wal import WriteAheadLog

_log = logging.getLogger(__name__)

UNSTORABLE: Final = (OverflowError, ValueError)
"""The errors of sqlite3 for a value that it cannot store: an integer of more than 64 bits, text that is no Unicode."""

_STEPS: Final = """
SELECT s.base, s.last_seq, s.data, s.inputs, s.checksum, s.link FROM (
  SELECT base, sum(size) OVER (ORDER BY base) - size AS before FROM (
    SELECT base, length(data) AS size FROM steps WHERE run_id = ?1 AND base >= coalesce(
      (SELECT max(base) FROM steps WHERE run_id = ?1 AND base <= ?2), 0
    ) ORDER BY base LIMIT ?3
  )
) AS page JOIN steps AS s ON s.run_id = ?1 AND s.base = page.base WHERE page.before < ?4 ORDER BY s.base
"""
_OPENINGS: Final = """
SELECT run_id, substr(data, 1, ?1) FROM steps WHERE base = 0 AND run_id IN (SELECT value FROM json_each(?2))
"""
_RECORDS: Final = """
SELECT page.n, r.data FROM (
  SELECT n, ordinal, sum(size) OVER (ORDER BY ordinal) - size AS before FROM (
    SELECT n, ordinal, size FROM (
      SELECT row_number() OVER (ORDER BY ordinal) AS n, ordinal, role, length(data) AS size FROM records
      WHERE run_id = ?1
    ) WHERE n > ?2 AND (?3 = '' OR role = ?3) ORDER BY n LIMIT ?4
  )
) AS page JOIN records AS r ON r.ordinal = page.ordinal WHERE page.before < ?5 ORDER BY page.n
"""
_CONVERSATION: Final = f"""
SELECT version, data, checksum FROM (
  SELECT version, data, checksum, sum(length(data)) OVER (ORDER BY version DESC) AS size
  FROM (
    SELECT version, data, checksum FROM turns WHERE tenant = ? AND session_id = ? AND role = ?
    ORDER BY version DESC LIMIT {HISTORY_TURNS}
  )
) WHERE size <= {HISTORY_BYTES} ORDER BY version
"""
_OUTBOX: Final = """
SELECT o.row_id, o.run_id, o.epoch, o.scope, o.role, o.task_id, o.seq, o.content,
  s.base, s.last_seq, s.data, s.inputs, s.checksum
FROM outbox AS o LEFT JOIN steps AS s ON s.run_id = o.run_id
  AND s.base = (SELECT max(base) FROM steps WHERE run_id = o.run_id AND base < o.seq)
WHERE ?1 IN (0, o.row_id) AND ?3 IN ('', o.scope) AND o.scope NOT IN (SELECT value FROM json_each(?4))
ORDER BY o.row_id LIMIT ?2
"""
_OUTBOX_ALONE: Final = """
SELECT row_id, run_id, epoch, scope, role, task_id, seq, content FROM outbox
WHERE ?2 IN ('', scope) AND scope NOT IN (SELECT value FROM json_each(?3)) ORDER BY row_id LIMIT ?1
"""


class SqliteJournal(SqliteTrackRecords, SqliteLearning, SqliteTriggers, SqliteRetained, SqliteDailyUsage, SqliteChains):
    """`sync` is `full` (an fsync per commit: survives a power cut) or `normal` (survives kill -9; a power cut may take
    the last commits, but never half of one)."""

    def __init__(self, path: Path, *, sync: Literal["full", "normal"] = "full", reset: bool = False) -> None:
        """`reset`: whether to go on with whatever file is there, even if the journal of the last start is missing."""
        self._path = path
        self._reset = reset
        self._identity: FileIdentity | None = None
        self._last_commit: LastCommit | None = None
        self.durability: str = sync
        self.inline = sync == "normal"
        self._lock_file: int | None = None
        self._writer: SqliteWriter | None = None
        self._wal: WriteAheadLog | None = None
        self._connection: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._reading = threading.Lock()
        self._checkpoints = BackgroundLoop("journal: checkpoints", self._checkpoint_loop)
        self._retries: set[asyncio.Task[None]] = set()
        self._turn_taken = False

    async def open(self) -> None:
        """Opens the file and upgrades it in place. Raises FailedPrecondition if another process holds it, a newer
        version or another program wrote it, it is not the file of the last start, it is truncated, or it cannot be
        written; DataLoss if it is no database, or so damaged that no run can go on."""
        try:
            await self._open()
        except (OSError, sqlite3.Error) as error:
            raise unusable("journal", self._path, error, "ARCHON_JOURNAL") from None

    async def _open(self) -> None:
        private_folder(self._path.parent)
        self._lock_file = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock_file)
            self._lock_file = None
            raise FailedPrecondition(f"the journal {self._path} is in use by another orchestrator") from None
        self._identity = FileIdentity(self._path, self._lock_file, reset=self._reset)
        self._identity.check_file()
        self._last_commit = LastCommit(self._path, self._lock_file, durability=self.durability, reset=self._reset)
        self._last_commit.check(self._identity.is_same)
        private_file(self._path)
        self._connection = self._connect()
        check_is_journal(self._path, self._connection)
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
        )
        version = open_version(self._connection, f"the journal {self._path}", VERSION)
        self._connection.executescript(TABLES)
        if version < VERSION:
            await asyncio.to_thread(upgrade, self._connection, version)
        if version <= VERSION:
            store_compatible_from(self._connection, COMPATIBLE_FROM)
        check_end(self._path, self._connection)
        self._identity.check_content(self._connection)
        self._reader = self._connect()
        self._last_commit.begin()
        self._writer = SqliteWriter(
            self._connection, inline=self.inline, verify=self._identity.verify, witness=self._last_commit
        )
        self._wal = WriteAheadLog(self._path, self._writer, self._connect, preextend=self.durability == "full")
        self._checkpoints.start()

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=5)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA synchronous = {self.durability.upper()}")
        db.execute("PRAGMA wal_autocheckpoint = 0")  # a thread of its own does them
        db.execute("PRAGMA temp_store = MEMORY")
        return db

    async def close(self) -> None:
        """Commits queued steps, then releases the file. Idempotent."""
        await self._checkpoints.close()
        if self._writer is not None:
            await asyncio.to_thread(self._writer.close)
        for db in (self._reader, self._connection):
            if db is not None:
                db.close()
        if self._last_commit is not None:
            self._last_commit.close()
        if self._lock_file is not None:
            os.close(self._lock_file)
        self._writer = self._wal = self._reader = self._connection = self._lock_file = None

    async def _checkpoint_loop(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            await self.checkpoint()

    async def checkpoint(self) -> None:
        """Writes the write-ahead log back into the database if it has become large. The journal does it by itself."""
        if self._wal is not None:
            await asyncio.to_thread(self._wal.keep)

    async def _write(self, work: Any, *, full: bool = False) -> Any:
        assert self._writer is not None, "the journal is not open"
        return await self._writer.do(work, full=full)

    async def _read(self, sql: str, parameters: Sequence[object] = ()) -> list[Any]:
        """Returns all rows at once: no cursor stays open during a network write. Raises DataLoss if a row cannot be
        read."""

        def fetch() -> list[Any]:
            assert self._reader is not None, "the journal is not open"
            with self._reading:
                try:
                    return self._reader.execute(sql, parameters).fetchall()
                except sqlite3.Error as error:
                    raise to_archon_error(error) from error

        return await asyncio.to_thread(fetch)

    async def _read_run(self, run_id: str, sql: str, parameters: Sequence[object]) -> list[Any]:
        """Raises DataLoss with the id of the run if a row cannot be read."""
        try:
            return await self._read(sql, parameters)
        except DataLoss as error:
            raise of_run(run_id, error) from error

    def commit(self, steps: Sequence[Step]) -> list[StepResult] | asyncio.Future[list[StepResult]]:
        assert self._writer is not None, "the journal is not open"
        if self.inline or self._takes_its_turn(self._writer, steps):
            try:
                return self._commit_now(self._writer, steps)
            except Busy:
                pass
        results: asyncio.Future[list[StepResult]] = asyncio.get_running_loop().create_future()
        try:
            written = self._writer.later(partial(self._commit_steps, steps=steps))
        except ArchonError as error:
            results.set_result([error] * len(steps))
            return results
        written.add_done_callback(partial(self._committed, steps, results))
        return results

    def _commit_steps(self, db: sqlite3.Connection, steps: Sequence[Step]) -> list[StepResult]:
        results = commit_steps(db, steps)
        if self._last_commit is not None:
            self._last_commit.note(steps, results)
        return results

    def _takes_its_turn(self, writer: SqliteWriter, steps: Sequence[Step]) -> bool:
        """Whether a commit with an fsync is made on the event loop: of one step, on a quick disk, once in a turn of
        the loop. Steps that come together are stored together, and the loop waits for one fsync only."""
        if len(steps) != 1 or not writer.is_quick or self._turn_taken:
            return False
        self._turn_taken = True
        asyncio.get_running_loop().call_soon(self._end_turn)
        return True

    def _end_turn(self) -> None:
        self._turn_taken = False

    def _commit_now(self, writer: SqliteWriter, steps: Sequence[Step]) -> list[StepResult]:
        """Raises Busy if other work is under way."""
        try:
            return writer.now(partial(self._commit_steps, steps=steps))
        except (ArchonError, *UNSTORABLE) as error:
            if len(steps) == 1:
                return [_refusal(error, steps[0])]
        return [self._commit_now(writer, [step])[0] for step in steps]

    def _committed(
        self,
        steps: Sequence[Step],
        results: asyncio.Future[list[StepResult]],
        written: asyncio.Future[list[StepResult]],
    ) -> None:
        if results.cancelled():
            return
        error = written.exception()
        if error is None:
            results.set_result(written.result())
        elif len(steps) > 1 and isinstance(error, (ArchonError, *UNSTORABLE)):
            task = asyncio.create_task(self._one_by_one(steps, results), name="journal-retry")
            self._retries.add(task)
            task.add_done_callback(self._retries.discard)
        elif isinstance(error, (ArchonError, *UNSTORABLE)):
            results.set_result([_refusal(error, steps[0])])
        else:
            results.set_exception(error)

    async def _one_by_one(self, steps: Sequence[Step], results: asyncio.Future[list[StepResult]]) -> None:
        outcomes: list[StepResult] = []
        for step in steps:
            try:
                outcomes += await self._write(partial(commit_steps, steps=[step]))
            except (ArchonError, *UNSTORABLE) as error:
                outcomes.append(_refusal(error, step))
        if not results.done():
            results.set_result(outcomes)

    async def request(self, tenant: str, request_id: str) -> tuple[bytes, str] | None:
        sql = "SELECT payload_hash, run_id FROM requests WHERE tenant = ? AND request_id = ?"
        rows = await self._read(sql, (tenant, request_id))
        return (rows[0][0], rows[0][1]) if rows else None

    async def conversation(self, tenant: str, session_id: str, role: str) -> Conversation:
        rows = await self._read(_CONVERSATION, (tenant, session_id, role))
        return checked_conversation(tenant, session_id, role, rows)

    async def steps(
        self, run_id: str, after_seq: int = 0, limit: int = 500, max_bytes: int = PAGE_BYTES
    ) -> list[StoredStep]:
        rows = await self._read_run(run_id, _STEPS, (run_id, after_seq, limit, max_bytes))
        return checked_steps(run_id, rows, after_seq)

    async def inputs(self, run_id: str) -> list[tuple[int, bytes]]:
        sql = "SELECT base, last_seq, data, inputs, checksum FROM steps WHERE run_id = ? ORDER BY base"
        return checked_inputs(run_id, await self._read_run(run_id, sql, (run_id,)))

    async def size(self, run_id: str) -> int:
        sql = """
            SELECT (SELECT coalesce(sum(length(data) + length(inputs)), 0) FROM steps WHERE run_id = ?1)
              + (SELECT coalesce(sum(length(data)), 0) FROM records WHERE run_id = ?1)
        """
        return int((await self._read(sql, (run_id,)))[0][0])

    async def run(self, run_id: str) -> RunRow | None:
        rows = await self._read_rows("WHERE run_id = ?", (run_id,))
        return rows[0] if rows else None

    async def runs(
        self,
        *,
        tenant: str,
        session_id: str = "",
        states: Sequence[int] = (),
        before: tuple[float, str] | None = None,
        since: float = 0.0,
        limit: int = 100,
    ) -> list[RunRow]:
        where = ["tenant = ?"]
        parameters: list[object] = [tenant]
        if session_id:
            where.append("session_id = ?")
            parameters.append(session_id)
        if states:
            where.append(f"state IN ({', '.join('?' * len(states))})")
            parameters += states
        if before is not None:
            where.append("(created_at, run_id) < (?, ?)")
            parameters += before
        if since:
            where.append("created_at >= ?")
            parameters.append(since)
        order = "ORDER BY created_at DESC, run_id DESC LIMIT ?"
        return await self._read_rows(f"WHERE {' AND '.join(where)} {order}", [*parameters, limit])

    async def openings(self, run_ids: Sequence[str]) -> dict[str, bytes]:
        try:
            rows = await self._read(_OPENINGS, (OPENING_BYTES, json.dumps(list(run_ids))))
        except DataLoss:
            if len(run_ids) == 1:
                return {}
            middle = len(run_ids) // 2
            return {**await self.openings(run_ids[:middle]), **await self.openings(run_ids[middle:])}
        return {run_id: data for run_id, data in rows if isinstance(data, bytes)}

    async def last_run_id(self) -> str:
        rows = await self._read("SELECT run_id FROM runs ORDER BY run_id DESC LIMIT 1")
        return str(rows[0][0]) if rows else ""

    async def _read_rows(self, where: str, parameters: Sequence[object]) -> list[RunRow]:
        try:
            rows = await self._read(f"SELECT {RUN_COLUMNS} FROM runs {where}", parameters)
        except DataLoss:  # in a step of one of them
            rows = await self._read(f"SELECT {OWN_COLUMNS} FROM runs {where}", parameters)
        return [RunRow(*row) for row in rows]

    async def records(
        self, run_id: str, *, role: str = "", after: int = 0, limit: int = 100, max_bytes: int = PAGE_BYTES
    ) -> list[tuple[int, bytes]]:
        rows = await self._read_run(run_id, _RECORDS, (run_id, after, role, limit, max_bytes))
        return [(row[0], row[1]) for row in rows]

    async def outbox(
        self, owner: str, limit: int = 100, *, scope: str = "", without: Collection[str] = ()
    ) -> list[OutboxRow]:
        left_out = json.dumps(list(without))
        try:
            return [read_outbox_row(row) for row in await self._read(_OUTBOX, (0, limit, scope, left_out))]
        except DataLoss:  # in a step of one of them
            rows = await self._read(_OUTBOX_ALONE, (limit, scope, left_out))
            return [await self._read_publication(row) for row in rows]

    async def _read_publication(self, row: Sequence[Any]) -> OutboxRow:
        run_id = row[1]
        try:
            (complete,) = await self._read_run(run_id, _OUTBOX, (row[0], 1, "", "[]"))
        except DataLoss as damage:
            return replace(read_outbox_row([*row, *[None] * 5]), damage=damage)
        return read_outbox_row(complete)

    async def unpublished(self, scope: str) -> bool:
        return bool(await self._read("SELECT 1 FROM outbox WHERE scope = ? LIMIT 1", (scope,)))

    async def published(self, row_ids: Sequence[int]) -> None:
        marks = ", ".join("?" * len(row_ids))
        await self._write(lambda db: db.execute(f"DELETE FROM outbox WHERE row_id IN ({marks})", list(row_ids)))

    async def last_ended(self, limit: int) -> list[EndedRun]:
        sql = "SELECT run_id, owner, ended_at FROM runs WHERE ended_at > 0 ORDER BY ended_at DESC LIMIT ?"
        return [EndedRun(*row) for row in await self._read(sql, (limit,))]

    async def compactable(self, ended_before: float, limit: int = 100, *, revision: int = 1) -> list[str]:
        sql = (
            "SELECT run_id FROM runs WHERE ended_at > 0 AND ended_at < ? AND compacted = 0 "
            "AND revision <= ? AND NOT EXISTS (SELECT 1 FROM outbox AS o WHERE o.run_id = runs.run_id) LIMIT ?"
        )
        return [row[0] for row in await self._read(sql, (ended_before, revision, limit))]

    async def compact(self, run_id: str, summary: bytes) -> None:
        def work(db: sqlite3.Connection) -> None:
            db.execute("UPDATE runs SET compacted = 1, summary = ? WHERE run_id = ?", (summary, run_id))
            for table in ("steps", "records"):
                db.execute(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))
            self._forget(run_id)

        await self._write(work)

    async def bound_times(self, latest: float) -> None:
        def work(db: sqlite3.Connection) -> None:
            db.execute("UPDATE runs SET ended_at = ?1 WHERE ended_at > 0 AND ended_at > ?1", (latest,))
            db.execute("UPDATE turns SET time = ?1 WHERE time > ?1", (latest,))

        await self._write(work)

    async def delete(
        self, ended_before: float, now: float, request_ttl: float, *, turns_before: float | None = None
    ) -> int:
        turns_before = ended_before if turns_before is None else turns_before

        def expire(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM requests WHERE expires_at > 0 AND expires_at < ?", (now,))
            db.execute("DELETE FROM turns WHERE time < ?", (turns_before,))
            self._forget()  # its run may be among those that are deleted next

        await self._write(expire)
        ended = "SELECT run_id FROM runs WHERE ended_at > 0 AND ended_at < ?"
        expires_at = now + request_ttl
        try:
            deleted: int = await self._write(
                partial(_delete_runs, which=ended, key=ended_before, expires_at=expires_at)
            )
        except DataLoss:  # in rows of one of them
            runs = await self._read(ended, (ended_before,))
            return sum([await self._delete_run(run_id, expires_at) for (run_id,) in runs])
        return deleted

    def _forget(self, run_id: str = "") -> None:
        if self._last_commit is not None:
            self._last_commit.forget(run_id)

    async def _delete_run(self, run_id: str, expires_at: float) -> int:
        try:
            await self._write(partial(_delete_runs, which="?", key=run_id, expires_at=expires_at))
        except DataLoss as error:
            _log.error("run %s cannot be deleted: %s", run_id, error, extra={"run_id": run_id})
            return 0
        return 1


def _delete_runs(db: sqlite3.Connection, *, which: str, key: object, expires_at: float) -> int:
    """Deletes the runs whose ids `which` selects; `key` is its parameter."""
    db.execute(f"UPDATE requests SET expires_at = ? WHERE run_id IN ({which})", (expires_at, key))
    for table in ("steps", "records", "outbox", "commands", "ratings", "marks", "learned_outcomes"):
        db.execute(f"DELETE FROM {table} WHERE run_id IN ({which})", (key,))
    return db.execute(f"DELETE FROM runs WHERE run_id IN ({which})", (key,)).rowcount


def _refusal(error: Exception, step: Step) -> ArchonError:
    """Returns the error of a step that the store refused."""
    if isinstance(error, DataLoss):
        return of_run(step.run_id, error)
    return error if isinstance(error, ArchonError) else InvalidArgument(f"the journal cannot store this: {error}")
