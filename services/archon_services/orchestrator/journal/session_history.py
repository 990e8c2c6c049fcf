"""What roles remember of sessions: one row for each turn of a conversation, stored in the append of its result.

A turn's version is the one after that which its attempt was given. Whoever stores that version first wins; the append
of the other is refused as a whole.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

HISTORY_BYTES: Final = 1024 * 1024
"""So much of a conversation is handed over at most: the newest turns."""

HISTORY_TURNS: Final = 500
"""And so many of them."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one result adds. `data` is an AssignTask that has nothing but `history`: put one after the other, turns are
    the history as a task gets it."""

    tenant: str
    session_id: str
    role: str
    version: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Conversation:
    """The newest turns within HISTORY_BYTES, oldest first; `version` is the last one's, 0 before the first."""

    version: int
    turns: tuple[bytes, ...]


TABLE: Final = """
CREATE TABLE IF NOT EXISTS turns (
  tenant TEXT NOT NULL, session_id TEXT NOT NULL, role TEXT NOT NULL, version INTEGER NOT NULL, time REAL NOT NULL,
  data BLOB NOT NULL, PRIMARY KEY (tenant, session_id, role, version)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS turns_time ON turns (time);
"""

READ: Final = f"""
SELECT version, data FROM (
  SELECT version, data, sum(length(data)) OVER (ORDER BY version DESC) AS size
  FROM (
    SELECT version, data FROM turns WHERE tenant = ? AND session_id = ? AND role = ?
    ORDER BY version DESC LIMIT {HISTORY_TURNS}
  )
) WHERE size <= {HISTORY_BYTES} ORDER BY version
"""


def conversation_of(rows: Sequence[tuple[int, bytes]]) -> Conversation:
    """Of (version, data), oldest first."""
    return Conversation(rows[-1][0] if rows else 0, tuple(data for _, data in rows))


def is_behind(db: sqlite3.Connection, turns: Sequence[Turn]) -> bool:
    """Whether another has stored the version of one of these, or a later one."""
    sql = "SELECT 1 FROM turns WHERE tenant = ? AND session_id = ? AND role = ? AND version >= ? LIMIT 1"
    return any(db.execute(sql, (one.tenant, one.session_id, one.role, one.version)).fetchone() for one in turns)


def store_turns(db: sqlite3.Connection, turns: Sequence[Turn], time: float) -> None:
    """Within the append's transaction; `time` in wall seconds."""
    for one in turns:
        row = (one.tenant, one.session_id, one.role, one.version, time, one.data)
        db.execute("INSERT INTO turns VALUES (?, ?, ?, ?, ?, ?)", row)
