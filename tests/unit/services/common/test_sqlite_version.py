"""Which versions of a SQLite file a release opens: older ones, and newer ones that only added to its tables."""

from __future__ import annotations

import sqlite3

import pytest

from archon.errors import FailedPrecondition
from archon_services.common.sqlite_version import open_version, store_compatible_from


@pytest.fixture
def db() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
    return db


def written_by(db: sqlite3.Connection, version: int, compatible_from: int) -> None:
    db.execute("INSERT INTO meta (key, value) VALUES ('version', ?)", (str(version),))
    store_compatible_from(db, compatible_from)


def test_a_new_file_has_the_version_of_the_release(db: sqlite3.Connection) -> None:
    assert open_version(db, "x.db", 8) == 8
    assert open_version(db, "x.db", 9) == 8


def test_a_newer_file_that_was_only_added_to_is_opened(db: sqlite3.Connection) -> None:
    written_by(db, 10, 8)
    assert open_version(db, "x.db", 8) == 10
    assert open_version(db, "x.db", 9) == 10
    with pytest.raises(FailedPrecondition, match=r"x\.db was written by a newer version of Archon"):
        open_version(db, "x.db", 7)


def test_a_newer_file_of_a_release_without_the_field_is_refused(db: sqlite3.Connection) -> None:
    db.execute("INSERT INTO meta (key, value) VALUES ('version', '10')")
    with pytest.raises(FailedPrecondition, match="newer version of Archon"):
        open_version(db, "x.db", 9)


def test_a_later_migration_replaces_the_compatible_version(db: sqlite3.Connection) -> None:
    written_by(db, 10, 8)
    store_compatible_from(db, 10)
    with pytest.raises(FailedPrecondition, match="newer version of Archon"):
        open_version(db, "x.db", 9)
