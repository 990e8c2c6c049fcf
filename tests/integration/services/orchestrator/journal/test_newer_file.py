"""The way back after an upgrade: a SQLite journal that a newer release has only added to."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from archon_services.orchestrator.journal import OwnerRow
from archon_services.orchestrator.journal.sqlite import SqliteJournal, schema
from tests.fixtures.journal import create


async def test_durability_7_a_newer_file_that_was_only_added_to_is_opened(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    await journal.open()
    await create(journal, "r")
    await journal.close()
    db = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
    db.execute("ALTER TABLE owners ADD COLUMN note TEXT NOT NULL DEFAULT ''")
    db.execute("ALTER TABLE runs ADD COLUMN note TEXT")
    db.execute("CREATE TABLE notes (note TEXT)")
    db.execute("UPDATE meta SET value = ? WHERE key = 'version'", (str(schema.VERSION + 1),))
    await journal.open()
    await journal.enter(OwnerRow("owner", "", 1, 0))
    await create(journal, "s")
    assert sorted(await journal.open_runs()) == ["r", "s"]
    await journal.close()
    meta = dict(db.execute("SELECT key, value FROM meta WHERE key IN ('version', 'compatible_from')"))
    assert meta == {"version": str(schema.VERSION + 1), "compatible_from": str(schema.COMPATIBLE_FROM)}
    db.close()
