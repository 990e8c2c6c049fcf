"""The statements of an append."""

from __future__ import annotations

import sqlite3
from typing import Any

from archon_services.orchestrator.journal.rows import Append, Outcome, RunRow
from archon_services.orchestrator.journal.session_history import is_behind, store_turns


def run_row(row: tuple[Any, ...]) -> RunRow:
    """A row of RUN_COLUMNS."""
    return RunRow(*row)


def store_append(db: sqlite3.Connection, append: Append) -> Outcome:
    """The append's one transaction: the condition first, then one statement per table."""
    if append.turns and (refused := _refused(db, append)) is not None:
        return refused
    changed = db.execute(
        "UPDATE runs SET last_seq = ?, state = ?, ended_at = ?, batch_id = ? "
        "WHERE run_id = ? AND epoch = ? AND last_seq = ?",
        (
            append.last_seq + len(append.events),
            append.state,
            append.time if append.ended else 0.0,
            append.batch_id,
            append.run_id,
            append.epoch,
            append.last_seq,
        ),
    ).rowcount
    if not changed:
        return _why(db, append)
    store_turns(db, append.turns, append.time)
    if append.taken:
        marks = ", ".join("?" * len(append.taken))
        db.execute(f"DELETE FROM commands WHERE row_id IN ({marks})", append.taken)
    numbered = enumerate(append.events, append.last_seq + 1)
    _insert(db, "events", 3, [value for seq, data in numbered for value in (append.run_id, seq, data)])
    _insert(db, "inputs", 3, [append.run_id, append.last_seq, append.inputs])
    _insert(
        db,
        "records (run_id, role, data)",
        3,
        [value for record in append.records for value in (append.run_id, record.role, record.data)],
    )
    _insert(
        db,
        "outbox (run_id, epoch, scope, role, task_id, seq, content)",
        7,
        [
            value
            for one in append.publications
            for value in (append.run_id, append.epoch, one.scope, one.role, one.task_id, one.seq, one.content)
        ],
    )
    return Outcome.DONE


def _refused(db: sqlite3.Connection, append: Append) -> Outcome | None:
    """Why it isn't to be stored, conversations included; None where it is."""
    mine = "SELECT 1 FROM runs WHERE run_id = ? AND epoch = ? AND last_seq = ?"
    if not db.execute(mine, (append.run_id, append.epoch, append.last_seq)).fetchone():
        return _why(db, append)
    return Outcome.CONFLICT if is_behind(db, append.turns) else None


def _why(db: sqlite3.Connection, append: Append) -> Outcome:
    row = db.execute("SELECT epoch, batch_id FROM runs WHERE run_id = ?", (append.run_id,)).fetchone()
    if row is None or row[0] != append.epoch:
        return Outcome.DEPOSED
    return Outcome.DONE if row[1] == append.batch_id else Outcome.STALE


def _insert(db: sqlite3.Connection, table: str, columns: int, values: list[Any]) -> None:
    """Many rows by one statement: each call into sqlite3 takes the GIL again."""
    row = f"({', '.join('?' * columns)})"
    for start in range(0, len(values), columns * 500):
        part = values[start : start + columns * 500]
        db.execute(f"INSERT INTO {table} VALUES {', '.join([row] * (len(part) // columns))}", part)
