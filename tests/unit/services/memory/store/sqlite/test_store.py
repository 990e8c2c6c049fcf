"""The SQLite store's file: ownership, versions, purging. Uses a manual clock."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from archon.errors import ArchonError, DataLoss, FailedPrecondition, Unavailable
from archon_services.memory.domain.items import NewItem
from archon_services.memory.domain.working import RETENTION, Write
from archon_services.memory.store.sqlite.store import SqliteStore
from tests.fixtures.memory_store import DAY, Clock, clock, contents, publish

__all__ = ["clock"]


async def test_expired_rows_are_deleted_from_every_table(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "memory.db"
    async with SqliteStore(path, sync="normal", clock=clock) as store:
        for number in range(30):
            await publish(store, NewItem("a", "x", run_id="r", epoch=1, seq=number + 1), request_id=str(number))
            await publish(store, NewItem("b", "x", run_id=f"r{number}", epoch=1, seq=1, ttl=5.0))
        clock.now += DAY + 1
        await publish(store, NewItem("c", "x"))
    with sqlite3.connect(path) as db:
        count = {
            table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("requests", "publications")
        }
        assert count == {"requests": 0, "publications": 31}  # the last event of each (run, role) stays longer
        assert db.execute("SELECT role FROM items WHERE content IS NOT NULL").fetchall() == [("a",), ("c",)]
    async with SqliteStore(path, sync="normal", clock=clock) as store:
        clock.now += 31 * DAY
        await publish(store, NewItem("c", "x"))
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM publications").fetchone() == (0,)


async def test_file_has_one_owner_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "memory.db"
    async with SqliteStore(path) as store:
        await publish(store, NewItem("a", "x"))
        with pytest.raises(FailedPrecondition):
            await SqliteStore(path).__aenter__()
    async with SqliteStore(path) as store:
        assert await contents(store) == {"a": "x"}
    with pytest.raises(Unavailable):
        await store.items("t", "s")


@pytest.mark.parametrize(("version", "expected"), [("5", FailedPrecondition), (None, DataLoss)])
async def test_file_of_another_format_or_newer_version_is_unchanged(
    tmp_path: Path, version: str | None, expected: type[ArchonError]
) -> None:
    path = tmp_path / "memory.db"
    if version is None:
        path.write_bytes(b"no database at all" * 100)
    else:
        async with SqliteStore(path):
            pass
        with sqlite3.connect(path) as db:
            db.execute("UPDATE meta SET value = ? WHERE key IN ('version', 'compatible_from')", (version,))
        db.close()
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(expected):
            await SqliteStore(path).__aenter__()
    assert path.read_bytes() == before


OLD_ITEMS = """
DROP TABLE items;
CREATE TABLE items (
  tenant TEXT NOT NULL, scope TEXT NOT NULL, role TEXT NOT NULL,
  version INTEGER NOT NULL, content TEXT, metadata TEXT NOT NULL, policy TEXT NOT NULL, timestamp REAL NOT NULL,
  ttl REAL, expires_at REAL, run_id TEXT NOT NULL, seq INTEGER NOT NULL,
  PRIMARY KEY (tenant, scope, role)
);
CREATE INDEX items_expiring ON items (expires_at) WHERE expires_at IS NOT NULL;
INSERT INTO items VALUES ('t', 's', 'b', 4, 'y', '{}', 'tool_results', 1.0, NULL, NULL, '', 0);
INSERT INTO items VALUES ('t', 's', 'a', 7, 'x', '{}', 'final_response_only', 1.0, NULL, NULL, '', 0);
UPDATE meta SET value = '2';
"""


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_file_of_an_earlier_version_is_upgraded(tmp_path: Path, version: int) -> None:
    path = tmp_path / "memory.db"
    async with SqliteStore(path):
        pass
    with sqlite3.connect(path) as db:
        db.executescript(OLD_ITEMS)
        if version == 1:
            db.executescript("DROP TABLE working_scopes; DROP TABLE working_values; UPDATE meta SET value = '1'")
        if version == 3:
            db.execute("UPDATE meta SET value = '3' WHERE key = 'version'")
    db.close()
    async with SqliteStore(path) as store:
        pass
    async with SqliteStore(path) as store:
        assert list((await contents(store)).items()) == [("b", "y"), ("a", "x")]
        assert [each.version for each in await publish(store, NewItem("b", "z"))] == [5]
        assert [(each.item.content, each.item.version) for each in await store.items("t", "s")] == [
            ("y", 4),
            ("x", 7),
            ("z", 5),
        ]
        written = await store.working.write(Write("t", "s", "k", "1"))
        assert written is not None and written.version == 1
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT value FROM meta WHERE key = 'version'").fetchone() == ("4",)
        indexes = db.execute(
            "SELECT name FROM sqlite_master WHERE tbl_name = 'items' AND sql IS NOT NULL AND type = 'index'"
        )
        assert indexes.fetchall() == [("items_expiring",)]
    db.close()


async def test_values_of_expired_scopes_are_deleted_in_batches(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "memory.db"
    async with SqliteStore(path, sync="normal", clock=clock) as store:
        await asyncio.gather(*(store.working.write(Write("t", "big", str(n), "1")) for n in range(1_500)))
        clock.now += RETENTION + 1
        for left in (500, 0):
            await store.working.write(Write("t", "new", "k", "1"))
            with sqlite3.connect(path) as db:
                counted = db.execute("SELECT count(*) FROM working_values WHERE scope = 'big'").fetchone()
            db.close()
            assert counted == (left,)
        with sqlite3.connect(path) as db:
            assert db.execute("SELECT scope FROM working_scopes").fetchall() == [("new",)]
        db.close()
