"""The version of the tables in a SQLite file, and the earliest version whose release still works with them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from archon.errors import FailedPrecondition


def open_version(db: sqlite3.Connection, name: str | Path, version: int) -> int:
    """Returns the version of the file's tables, which is `version` if the file is new. `db` has the table `meta`.

    Raises FailedPrecondition if a newer release wrote the file and `version` cannot use it; `name` names the file.
    """
    db.execute("INSERT OR IGNORE INTO meta (key, value) VALUES ('version', ?)", (str(version),))
    stored = {
        key: int(value)
        for key, value in db.execute("SELECT key, value FROM meta WHERE key IN ('version', 'compatible_from')")
    }
    if stored["version"] > version and not stored.get("compatible_from", version + 1) <= version:
        raise FailedPrecondition(f"{name} was written by a newer version of Archon")
    return stored["version"]


def store_compatible_from(db: sqlite3.Connection, compatible_from: int) -> None:
    """Stores the earliest version whose release works with the tables, after they were created or upgraded."""
    db.execute(
        "INSERT INTO meta (key, value) VALUES ('compatible_from', ?1) ON CONFLICT (key) DO UPDATE SET value = ?1 "
        "WHERE value <> ?1",
        (str(compatible_from),),
    )
