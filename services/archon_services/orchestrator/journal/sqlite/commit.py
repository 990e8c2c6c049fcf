"""The statements of a commit. Nothing here begins or ends a transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from archon.errors import AlreadyExists, ArchonError
from archon_services.orchestrator.journal.checksum import checksum_of
from archon_services.orchestrator.journal.memory.journal import same_request
from archon_services.orchestrator.journal.rows import NewRun, Outcome, SameRequest, Step, StepResult
from archon_services.orchestrator.journal.session_history import Turn, turn_checksum
from archon_services.orchestrator.journal.sqlite.audit_rows import insert_audit

_INSERT_STEP: Final = """
INSERT INTO steps (run_id, base, last_seq, batch_id, data, inputs, checksum, link, seal)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?8, ?9, ?10 FROM runs WHERE run_id = ?1 AND epoch = ?7 AND ended_at = 0
AND coalesce((SELECT last_seq FROM steps WHERE run_id = ?1 ORDER BY base DESC LIMIT 1), 0) = ?2
"""
_INSERT_FIRST_STEP: Final = (
    "INSERT INTO steps (run_id, base, last_seq, batch_id, data, inputs, checksum, link, seal) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_TURN: Final = (
    "INSERT INTO turns (tenant, session_id, role, version, time, data, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_RUN: Final = """
INSERT INTO runs (run_id, tenant, session_id, owner, epoch, last_seq, state, batch_id, created_at, ended_at, revision)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, '', CASE WHEN newest > ?8 THEN newest + 1e-6 ELSE ?8 END, ?9, ?10
FROM (SELECT (SELECT created_at FROM runs WHERE tenant = ?2 ORDER BY created_at DESC LIMIT 1) AS newest)
WHERE true ON CONFLICT DO NOTHING
"""
"""A time before the creation of the tenant's newest run comes from a clock that was set back: the order of the runs
stays. For `max(created_at)` in an INSERT, SQLite would read all runs."""
_LAST_BATCH: Final = "SELECT batch_id FROM steps WHERE run_id = ? ORDER BY base DESC LIMIT 1"


def commit_steps(db: sqlite3.Connection, steps: Sequence[Step]) -> list[StepResult]:
    """Stores each step under its condition. Raises sqlite3.Error if the store fails: then nothing must be kept."""
    return [_commit_step(db, step) for step in steps]


def _commit_step(db: sqlite3.Connection, step: Step) -> StepResult:
    if step.new is not None:
        result = _create_run(db, step.new, step)
        if result is not Outcome.DONE and _is_created(db, step):
            return Outcome.DONE
    elif step.turns and (refusal := _refused(db, step)) is not None:
        return refusal
    else:
        row = (step.run_id, step.base, step.last_seq, step.batch_id, step.data, step.inputs, step.epoch,
               checksum_of(step), step.link or None, step.seal or None)  # fmt: skip
        if not db.execute(_INSERT_STEP, row).rowcount:
            return _refusal(db, step)
        if step.state_changed or step.ended:
            db.execute(
                "UPDATE runs SET last_seq = ?, state = ?, ended_at = ? WHERE run_id = ?",
                (step.last_seq, step.state, step.time if step.ended else 0.0, step.run_id),
            )
        result = Outcome.DONE
    if result is Outcome.DONE:
        _store_rest(db, step)
    return result


def _create_run(db: sqlite3.Connection, new: NewRun, step: Step) -> Outcome | SameRequest | ArchonError:
    if new.request_id:
        request = db.execute(
            "SELECT payload_hash, run_id FROM requests WHERE tenant = ? AND request_id = ?",
            (new.tenant, new.request_id),
        ).fetchone()
        if request is not None:
            try:
                return same_request(request[0], new, request[1])
            except ArchonError as error:
                return error
    ended_at = step.time if step.ended else 0.0
    row = (new.run_id, new.tenant, new.session_id, new.owner, step.epoch, step.last_seq, step.state, step.time,
           ended_at, new.revision)  # fmt: skip
    if not db.execute(_INSERT_RUN, row).rowcount:
        return AlreadyExists(f"run {new.run_id!r} exists already", metadata={"run_id": new.run_id})
    if new.request_id:
        db.execute(
            "INSERT INTO requests (tenant, request_id, payload_hash, run_id) VALUES (?, ?, ?, ?)",
            (new.tenant, new.request_id, new.payload_hash, new.run_id),
        )
    first = (step.run_id, 0, step.last_seq, step.batch_id, step.data, step.inputs, checksum_of(step),
             step.link or None, step.seal or None)  # fmt: skip
    db.execute(_INSERT_FIRST_STEP, first)
    return Outcome.DONE


def _is_created(db: sqlite3.Connection, step: Step) -> bool:
    """Returns whether this very step has created the run before."""
    sql = "SELECT 1 FROM steps WHERE run_id = ? AND base = 0 AND batch_id = ?"
    return db.execute(sql, (step.run_id, step.batch_id)).fetchone() is not None


def _store_rest(db: sqlite3.Connection, step: Step) -> None:
    for turn in step.turns:
        row = (turn.tenant, turn.session_id, turn.role, turn.version, step.time, turn.data, turn_checksum(turn))
        db.execute(_INSERT_TURN, row)
    if step.commands:
        marks = ", ".join("?" * len(step.commands))
        db.execute(f"DELETE FROM commands WHERE row_id IN ({marks})", step.commands)
    if step.records:
        records = [value for record in step.records for value in (step.run_id, record.role, record.data)]
        _insert(db, "records (run_id, role, data)", 3, records)
    if step.audit:
        insert_audit(db, step.audit)
    for publication in step.publications:
        db.execute(
            "INSERT INTO outbox (run_id, epoch, scope, role, task_id, seq) VALUES (?, ?, ?, ?, ?, ?)",
            (step.run_id, step.epoch, publication.scope, publication.role, publication.task_id, publication.seq),
        )


def _refused(db: sqlite3.Connection, step: Step) -> Outcome | None:
    """Returns why a step with turns is not to be stored, or None if it may be."""
    mine = db.execute("SELECT 1 FROM runs WHERE run_id = ? AND epoch = ?", (step.run_id, step.epoch)).fetchone()
    last = db.execute(
        "SELECT last_seq FROM steps WHERE run_id = ? ORDER BY base DESC LIMIT 1", (step.run_id,)
    ).fetchone()
    if mine is None or (last[0] if last else 0) != step.base:
        return _refusal(db, step)
    return Outcome.CONFLICT if _is_behind(db, step.turns) else None


def _is_behind(db: sqlite3.Connection, turns: Sequence[Turn]) -> bool:
    sql = "SELECT 1 FROM turns WHERE tenant = ? AND session_id = ? AND role = ? AND version >= ? LIMIT 1"
    return any(db.execute(sql, (turn.tenant, turn.session_id, turn.role, turn.version)).fetchone() for turn in turns)


def _refusal(db: sqlite3.Connection, step: Step) -> Outcome:
    """Returns why the condition of a step did not hold; DONE if this very step was stored before."""
    row = db.execute("SELECT epoch FROM runs WHERE run_id = ?", (step.run_id,)).fetchone()
    if row is None or row[0] != step.epoch:
        return Outcome.DEPOSED
    last = db.execute(_LAST_BATCH, (step.run_id,)).fetchone()
    if last is None:  # ended and compacted
        return Outcome.DEPOSED
    return Outcome.DONE if last[0] == step.batch_id else Outcome.STALE


def _insert(db: sqlite3.Connection, table: str, columns: int, values: list[Any]) -> None:
    """Inserts many rows by one statement: each call into sqlite3 takes the GIL again."""
    row = f"({', '.join('?' * columns)})"
    for start in range(0, len(values), columns * 500):
        part = values[start : start + columns * 500]
        db.execute(f"INSERT INTO {table} VALUES {', '.join([row] * (len(part) // columns))}", part)
