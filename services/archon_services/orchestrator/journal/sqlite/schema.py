"""Tables of the SQLite journal, and upgrades from earlier versions of the file.

A run's row holds `last_seq` as of its last change of state; the last step knows better. Steps are keyed by (run, base):
the insert of a step is its own fence. They lie in the order of their arrival, so that the steps of one commit share
pages, whichever runs they belong to.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final

from archon_services.orchestrator.journal.framing import frame

VERSION: Final = 8

COMPATIBLE_FROM: Final = 8
"""The earliest version whose release works with these tables, for the way back after an upgrade. It stays as it is if a
version only adds tables, and columns with a default; a version that takes something away sets it to itself."""

TABLES: Final = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS runs (
  run_id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL,
  session_id TEXT NOT NULL,
  owner TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  last_seq INTEGER NOT NULL,
  state INTEGER NOT NULL,
  batch_id TEXT NOT NULL,
  created_at REAL NOT NULL,
  ended_at REAL NOT NULL,
  compacted INTEGER NOT NULL DEFAULT 0,
  summary BLOB NOT NULL DEFAULT x'',
  revision INTEGER NOT NULL DEFAULT 1,
  stalled INTEGER NOT NULL DEFAULT 0,
  claimed_seq INTEGER NOT NULL DEFAULT -1
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS runs_newest ON runs (tenant, created_at DESC, run_id DESC);
CREATE INDEX IF NOT EXISTS runs_open ON runs (run_id) WHERE ended_at = 0;
CREATE INDEX IF NOT EXISTS runs_ended ON runs (ended_at) WHERE ended_at > 0;
CREATE INDEX IF NOT EXISTS runs_to_compact ON runs (ended_at) WHERE ended_at > 0 AND compacted = 0;
CREATE TABLE IF NOT EXISTS steps (
  run_id TEXT NOT NULL, base INTEGER NOT NULL, last_seq INTEGER NOT NULL, batch_id TEXT NOT NULL,
  data BLOB NOT NULL, inputs BLOB NOT NULL, checksum INTEGER, link BLOB, seal BLOB, PRIMARY KEY (run_id, base)
);
CREATE TABLE IF NOT EXISTS records (
  ordinal INTEGER PRIMARY KEY, run_id TEXT NOT NULL, role TEXT NOT NULL, data BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS records_run ON records (run_id, ordinal);
CREATE TABLE IF NOT EXISTS requests (
  tenant TEXT NOT NULL, request_id TEXT NOT NULL, payload_hash BLOB NOT NULL, run_id TEXT NOT NULL,
  expires_at REAL NOT NULL DEFAULT 0, PRIMARY KEY (tenant, request_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS requests_run ON requests (run_id);
CREATE INDEX IF NOT EXISTS requests_expiring ON requests (expires_at) WHERE expires_at > 0;
CREATE TABLE IF NOT EXISTS outbox (
  row_id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, epoch INTEGER NOT NULL, scope TEXT NOT NULL,
  role TEXT NOT NULL, task_id TEXT NOT NULL, seq INTEGER NOT NULL, content TEXT
);
CREATE INDEX IF NOT EXISTS outbox_of_run ON outbox (run_id);
CREATE TABLE IF NOT EXISTS owners (
  owner TEXT PRIMARY KEY, address TEXT NOT NULL, revision INTEGER NOT NULL, beat INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS commands (
  row_id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, data BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS turns (
  tenant TEXT NOT NULL, session_id TEXT NOT NULL, role TEXT NOT NULL, version INTEGER NOT NULL, time REAL NOT NULL,
  data BLOB NOT NULL, checksum INTEGER, PRIMARY KEY (tenant, session_id, role, version)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS turns_time ON turns (time);
CREATE TABLE IF NOT EXISTS track_records (
  owner TEXT NOT NULL, tenant TEXT NOT NULL, role TEXT NOT NULL, instance_id TEXT NOT NULL, time REAL NOT NULL,
  data BLOB NOT NULL, PRIMARY KEY (owner, tenant, role, instance_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS ratings (
  run_id TEXT NOT NULL, identity TEXT NOT NULL, stars INTEGER NOT NULL, comment TEXT NOT NULL, time REAL NOT NULL,
  PRIMARY KEY (run_id, identity)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS marks (
  run_id TEXT NOT NULL, identity TEXT NOT NULL, reason TEXT NOT NULL, time REAL NOT NULL,
  PRIMARY KEY (run_id, identity)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS learned_versions (
  tenant TEXT NOT NULL, version INTEGER NOT NULL, time REAL NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY (tenant, version)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS learned_evidence (
  tenant TEXT PRIMARY KEY, revision INTEGER NOT NULL, data BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS learned_outcomes (
  run_id TEXT NOT NULL, source TEXT NOT NULL, PRIMARY KEY (run_id, source)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS triggers (
  tenant TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, revision INTEGER NOT NULL, due REAL NOT NULL,
  data BLOB NOT NULL, PRIMARY KEY (tenant, kind, name)
);
CREATE INDEX IF NOT EXISTS triggers_due ON triggers (kind, due);
CREATE TABLE IF NOT EXISTS fires (
  tenant TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, fire_id TEXT NOT NULL, number INTEGER NOT NULL,
  run_id TEXT NOT NULL, running INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (tenant, kind, name, fire_id)
);
CREATE INDEX IF NOT EXISTS fires_newest ON fires (tenant, kind, name, number);
CREATE INDEX IF NOT EXISTS fires_running ON fires (kind, run_id) WHERE running = 1;
CREATE TABLE IF NOT EXISTS daily_usage (
  day INTEGER NOT NULL, owner TEXT NOT NULL, tenant TEXT NOT NULL, identity TEXT NOT NULL, runs INTEGER NOT NULL,
  bytes INTEGER NOT NULL, tokens INTEGER NOT NULL, micro_usd INTEGER NOT NULL,
  PRIMARY KEY (day, owner, tenant, identity)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS audit (
  row_id INTEGER PRIMARY KEY AUTOINCREMENT, chain TEXT NOT NULL, number INTEGER NOT NULL DEFAULT 0,
  tenant TEXT NOT NULL, time REAL NOT NULL, identity TEXT NOT NULL, action TEXT NOT NULL, run_id TEXT NOT NULL,
  data BLOB NOT NULL, digest BLOB, link BLOB, seal BLOB
);
CREATE UNIQUE INDEX IF NOT EXISTS audit_chain ON audit (chain, number) WHERE number > 0;
CREATE INDEX IF NOT EXISTS audit_unlinked ON audit (row_id) WHERE number = 0;
CREATE INDEX IF NOT EXISTS audit_newest ON audit (tenant, row_id);
"""

LAST_SEQ: Final = (
    "max(last_seq, coalesce((SELECT s.last_seq FROM steps AS s WHERE s.run_id = runs.run_id "
    "ORDER BY s.base DESC LIMIT 1), 0))"
)
"""The last event of a row of `runs`."""

_RUN_COLUMNS: Final = (
    "run_id, tenant, session_id, owner, epoch, {}, state, created_at, ended_at, compacted, summary, revision, stalled"
)
RUN_COLUMNS: Final = _RUN_COLUMNS.format(LAST_SEQ)
OWN_COLUMNS: Final = _RUN_COLUMNS.format("last_seq")
"""RUN_COLUMNS without a look at the steps, which may be damaged: `last_seq` is the event of the last change of
state."""


def upgrade(db: sqlite3.Connection, version: int) -> None:
    """Brings a file of an earlier version to the present one, each step in its own transaction."""
    for earlier in range(version, VERSION):
        db.execute("BEGIN IMMEDIATE")
        try:
            _UPGRADES[earlier](db)
            db.execute("UPDATE meta SET value = ? WHERE key = 'version'", (str(earlier + 1),))
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise


def _add_ownership(db: sqlite3.Connection) -> None:
    """Version 1: a single owner."""
    for column in ("revision INTEGER NOT NULL DEFAULT 1", "stalled INTEGER NOT NULL DEFAULT 0",
                   "claimed_seq INTEGER NOT NULL DEFAULT -1"):  # fmt: skip
        db.execute(f"ALTER TABLE runs ADD COLUMN {column}")


def _add_turns(db: sqlite3.Connection) -> None:
    """Version 2: no table of turns, which TABLES has created."""


def _gather_steps(db: sqlite3.Connection) -> None:
    """Version 3: a row for each event and one for the inputs of each step; outbox rows with their text."""
    db.execute("ALTER TABLE outbox RENAME TO outbox_3")
    db.execute("DROP INDEX IF EXISTS outbox_of_run")
    db.execute(
        "CREATE TABLE outbox (row_id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, epoch INTEGER NOT NULL, "
        "scope TEXT NOT NULL, role TEXT NOT NULL, task_id TEXT NOT NULL, seq INTEGER NOT NULL, content TEXT)"
    )
    db.execute("CREATE INDEX outbox_of_run ON outbox (run_id)")
    db.execute("INSERT INTO outbox SELECT row_id, run_id, epoch, scope, role, task_id, seq, content FROM outbox_3")
    db.execute("DROP TABLE outbox_3")
    bounds = db.execute(
        "WITH causes AS (SELECT run_id, last_seq, data FROM inputs UNION ALL "
        "SELECT DISTINCT e.run_id, 0, x'' FROM events AS e "  # events whose inputs are missing are not to be lost
        "WHERE NOT EXISTS (SELECT 1 FROM inputs AS i WHERE i.run_id = e.run_id AND i.last_seq = 0)) "
        "SELECT run_id, last_seq, lead(last_seq) OVER (PARTITION BY run_id ORDER BY last_seq), data FROM causes "
        "ORDER BY run_id, last_seq"
    )
    for run_id, base, end, inputs in bounds:
        events = db.execute(
            "SELECT seq, data FROM events WHERE run_id = ? AND seq > ? AND seq <= ? ORDER BY seq",
            (run_id, base, end if end is not None else 1 << 62),
        ).fetchall()
        if not events:
            continue
        batch_id = ""
        if end is None:
            (batch_id,) = db.execute("SELECT batch_id FROM runs WHERE run_id = ?", (run_id,)).fetchone() or ("",)
        data = b"".join(frame(event) for _, event in events)
        row = (run_id, base, events[-1][0], batch_id, data, inputs)
        db.execute("INSERT INTO steps (run_id, base, last_seq, batch_id, data, inputs) VALUES (?, ?, ?, ?, ?, ?)", row)
    db.execute("DROP TABLE events")
    db.execute("DROP TABLE inputs")


def _order_steps(db: sqlite3.Connection) -> None:
    """Version 4: steps in the order of their runs (WITHOUT ROWID)."""
    (definition,) = db.execute("SELECT sql FROM sqlite_master WHERE name = 'steps'").fetchone()
    if "WITHOUT ROWID" not in definition:
        return  # the upgrade from version 3 has just created the table
    db.execute("ALTER TABLE steps RENAME TO steps_4")
    db.execute(
        "CREATE TABLE steps (run_id TEXT NOT NULL, base INTEGER NOT NULL, last_seq INTEGER NOT NULL, "
        "batch_id TEXT NOT NULL, data BLOB NOT NULL, inputs BLOB NOT NULL, PRIMARY KEY (run_id, base))"
    )
    db.execute("INSERT INTO steps SELECT run_id, base, last_seq, batch_id, data, inputs FROM steps_4")
    db.execute("DROP TABLE steps_4")


def _add_checksums(db: sqlite3.Connection) -> None:
    """Version 5: steps and turns without a checksum. They keep having none."""
    for table in ("steps", "turns"):
        if "checksum" not in {row[1] for row in db.execute(f"PRAGMA table_info({table})")}:
            db.execute(f"ALTER TABLE {table} ADD COLUMN checksum INTEGER")


def _add_track_records(db: sqlite3.Connection) -> None:
    """Version 6: no tables of track records and ratings, which TABLES has created."""


def _add_chains(db: sqlite3.Connection) -> None:
    """Version 7: steps without a link, which keep having none, and no audit log, which TABLES has created."""
    columns = {row[1] for row in db.execute("PRAGMA table_info(steps)")}
    for column in ("link", "seal"):
        if column not in columns:
            db.execute(f"ALTER TABLE steps ADD COLUMN {column} BLOB")


_UPGRADES: Final[dict[int, Callable[[sqlite3.Connection], None]]] = {
    1: _add_ownership,
    2: _add_turns,
    3: _gather_steps,
    4: _order_steps,
    5: _add_checksums,
    6: _add_track_records,
    7: _add_chains,
}
