"""Reading a real SQLite file: what a query returns, what it may take, and that nothing changes it."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import resource
import sqlite3
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from archon.errors import (
    ArchonError,
    DeadlineExceeded,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
)
from archon_mesh.tools import ToolExecutionEngine, ToolRegistry
from archon_mesh.tools.builtin import SqlQuery, SqlTables
from archon_mesh.tools.builtin.sql.database import MAX_CELL, MAX_COLUMNS, MAX_RESULT_BYTES, MAX_ROWS
from archon_mesh.tools.builtin.sql.sqlite import MEMORY_BYTES
from archon_mesh.tools.builtin.sql.tools import MAX_RUNNING
from tests.fixtures.processes import is_alive, processor_seconds
from tests.fixtures.variants import one_in
from tests.fixtures.waiting import until

LOOK = 0.1
"""Seconds between two looks at the processes."""

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shop 1%.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT, price REAL, picture BLOB)")
        connection.executemany(
            "INSERT INTO items VALUES (?, ?, ?, ?)", [(n, f"item {n}", n / 2, b"\0" * n) for n in range(1, 501)]
        )
        connection.execute("CREATE VIEW cheap AS SELECT id, name FROM items WHERE price < 2")
    connection.close()
    return path


def url_of(file: Path) -> str:
    return f"sqlite:///{str(file).replace('%', '%25')}"


async def test_query_returns_columns_and_rows(file: Path) -> None:
    answer = await SqlQuery(url_of(file)).execute(
        sql="SELECT id, name, price, picture, NULL AS missing FROM items WHERE id < ? AND name LIKE ?",
        parameters=[3, "item%"],
    )
    assert answer == {
        "columns": ["id", "name", "price", "picture", "missing"],
        "rows": [[1, "item 1", 0.5, "[1 bytes]", None], [2, "item 2", 1.0, "[2 bytes]", None]],
        "truncated": False,
    }


async def test_parameter_is_a_value_and_never_sql(file: Path) -> None:
    answer = await SqlQuery(url_of(file)).execute(
        sql="SELECT count(*) FROM items WHERE name = ?", parameters=["x' OR '1'='1"]
    )
    assert answer["rows"] == [[0]]


async def test_tables_and_views_are_listed_with_their_columns(file: Path) -> None:
    assert await SqlTables(url_of(file)).execute() == {
        "tables": {
            "cheap": ["id INTEGER", "name TEXT"],
            "items": ["id INTEGER", "name TEXT", "price REAL", "picture BLOB"],
        },
        "truncated": False,
    }


async def test_rows_cells_columns_and_bytes_are_bounded(file: Path) -> None:
    query = SqlQuery(url_of(file))
    many = await query.execute(sql="SELECT id FROM items")
    assert (len(many["rows"]), many["truncated"]) == (MAX_ROWS, True)
    long = await query.execute(sql="SELECT replace(hex(zeroblob(50000)), '0', 'x') FROM items")
    assert {len(row[0]) for row in long["rows"]} == {MAX_CELL}
    assert sum(len(row[0]) for row in long["rows"]) <= MAX_RESULT_BYTES
    assert long["truncated"] is True
    wide = await query.execute(sql="SELECT " + ", ".join(["1"] * 300))
    assert (len(wide["columns"]), len(wide["rows"][0]), wide["truncated"]) == (MAX_COLUMNS, MAX_COLUMNS, True)


async def test_endless_query_is_interrupted(file: Path) -> None:
    with pytest.raises(DeadlineExceeded, match="longer than"):
        await SqlQuery(url_of(file), seconds=0.3).execute(sql=ENDLESS)


SLOW_FUNCTIONS = [
    "SELECT sum(length(replace(hex(zeroblob(8000000)), '0', 'ab')) + i) FROM n",
    "SELECT count(*) FROM n WHERE hex(zeroblob(7000000)) || i LIKE '%0%0%0%0%0%0%0%z'",
    "SELECT count(*) FROM n WHERE instr(hex(zeroblob(8000000)), '00000000000000000000000000000000001') = i",
    "SELECT printf('%.*c', 16000000, 'x') || i FROM n ORDER BY 1",
    "SELECT group_concat(i) FROM n",
    "SELECT json_group_array(hex(randomblob(1000000))) FROM n",
]


@pytest.mark.parametrize("sql", one_in(3, SLOW_FUNCTIONS))
async def test_a_function_that_does_not_end_is_ended(file: Path, sql: str) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
    query = SqlQuery(url_of(file), seconds=0.5)
    began = time.monotonic()
    with pytest.raises((DeadlineExceeded, InvalidArgument, ResourceExhausted)):
        await query.execute(sql=endless + sql)
    assert time.monotonic() - began < 15.0
    assert (await query.execute(sql="SELECT 1"))["rows"] == [[1]]


LARGE_RESULTS = [
    "SELECT i, randomblob(1000000) AS b FROM n WHERE i < 2000 ORDER BY b",
    "SELECT group_concat(DISTINCT b) FROM (SELECT hex(randomblob(100000)) AS b FROM n WHERE i < 5000)",
    "SELECT max(b) OVER (ORDER BY i ROWS BETWEEN 4000 PRECEDING AND 4000 FOLLOWING) "
    "FROM (SELECT i, randomblob(1000000) AS b FROM n WHERE i < 4000)",
    "SELECT count(*) FROM (SELECT DISTINCT randomblob(1000000) FROM n WHERE i < 2000)",
]


@pytest.mark.parametrize("sql", one_in(4, LARGE_RESULTS))
async def test_a_query_keeps_its_memory(file: Path, sql: str) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
    running = asyncio.create_task(SqlQuery(url_of(file), seconds=1.5).execute(sql=endless + sql))
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    largest = 0
    while not (await asyncio.wait({running}, timeout=LOOK))[0]:
        for child in psutil.Process().children():
            with suppress(psutil.NoSuchProcess):
                largest = max(largest, child.memory_info().rss)
    error = running.exception()
    assert error is None or isinstance(error, (ResourceExhausted, DeadlineExceeded, InvalidArgument)), error
    assert largest < MEMORY_BYTES + 32 * 1024 * 1024
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most < 64 * 1024


async def test_cancelled_query_ends_its_process(file: Path) -> None:
    query = SqlQuery(url_of(file), seconds=600)
    await query.execute(sql="SELECT 1")
    task = asyncio.create_task(query.execute(sql=ENDLESS))
    before = {child.pid: processor_seconds(child) for child in psutil.Process().children()}

    def worked(child: psutil.Process) -> bool:
        return processor_seconds(child) > before.get(child.pid, 0.0) + 0.2

    await until(lambda: any(map(worked, psutil.Process().children())))
    busy = [child for child in psutil.Process().children() if worked(child)]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not any(map(is_alive, busy)))


async def test_queries_at_the_same_time_are_bounded(file: Path) -> None:
    query = SqlQuery(url_of(file), seconds=600)
    tasks = [asyncio.create_task(query.execute(sql=ENDLESS)) for _ in range(MAX_RUNNING)]
    await asyncio.sleep(0)
    with pytest.raises(ResourceExhausted):
        await query.execute(sql="SELECT 1")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (await query.execute(sql="SELECT 1"))["rows"] == [[1]]


@pytest.mark.parametrize(
    "attempt",
    [
        "INSERT INTO items VALUES (1000, 'x', 1, NULL)",
        "INSERT INTO items VALUES (1000, 'x', 1, NULL) RETURNING id",
        "UPDATE items SET name = 'x'",
        "DELETE FROM items",
        "WITH old AS (SELECT 1) DELETE FROM items",
        "REPLACE INTO items (id, name) VALUES (1, 'x')",
        "DROP TABLE items",
        "CREATE TABLE more (id)",
        "CREATE TEMP TABLE more (id)",
        "CREATE TRIGGER t AFTER INSERT ON items BEGIN DELETE FROM items; END",
        "ALTER TABLE items RENAME TO other",
        "CREATE INDEX i ON items (name)",
        "VACUUM",
        "VACUUM INTO 'FOLDER/copy.db'",
        "REINDEX",
        "ANALYZE",
        "ATTACH 'FOLDER/other.db' AS other",
        "ATTACH 'FOLDER/new.db' AS other",
        "DETACH main",
        "PRAGMA query_only = OFF",
        "PRAGMA writable_schema = ON",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA user_version = 7",
        "PRAGMA wal_checkpoint",
        "BEGIN IMMEDIATE",
        "COMMIT",
        "SAVEPOINT a",
        "SELECT 1; DELETE FROM items",
        "SELECT 1; PRAGMA query_only = OFF",
        "COMMIT; DROP TABLE items",
        "SELECT load_extension('FOLDER/evil.so')",
        "SELECT writefile('FOLDER/written', 'x')",
        "SELECT readfile('/etc/passwd')",
        "SELECT * FROM pragma_journal_mode('delete')",
        "EXPLAIN DELETE FROM items",
        "CREATE VIRTUAL TABLE v USING fts5(a)",
        "UPDATE sqlite_schema SET sql = 'x'",
    ],
)
async def test_attempt_to_write_changes_no_byte(file: Path, attempt: str) -> None:
    (file.parent / "other.db").touch()
    before = {path: hashlib.sha256(path.read_bytes()).digest() for path in file.parent.iterdir()}
    with pytest.raises(ArchonError) as raised:
        await SqlQuery(url_of(file)).execute(sql=attempt.replace("FOLDER", str(file.parent)))
    assert isinstance(raised.value, (PermissionDenied, InvalidArgument))
    assert {path: hashlib.sha256(path.read_bytes()).digest() for path in file.parent.iterdir()} == before


@pytest.mark.parametrize(
    "sql", ["SELEC 1", "SELECT nothing FROM items", "SELECT ?", "", "-- nothing", "SELECT 1; SELECT 2", "SELECT '\0'"]
)
async def test_wrong_query_is_an_invalid_argument(file: Path, sql: str) -> None:
    with pytest.raises(InvalidArgument):
        await SqlQuery(url_of(file)).execute(sql=sql)


async def test_large_values_within_a_query_are_refused(file: Path) -> None:
    for sql in ("SELECT length(randomblob(1000000000))", "SELECT length(hex(zeroblob(10000000)))"):
        with pytest.raises(InvalidArgument, match="too big"):
            await SqlQuery(url_of(file)).execute(sql=sql)


async def test_missing_file_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"cannot open the database none\.db"):
        await SqlQuery(f"sqlite:///{tmp_path}/none.db").execute(sql="SELECT 1")
    assert os.listdir(tmp_path) == []


async def test_file_that_is_locked_or_no_database_is_a_typed_error(file: Path) -> None:
    writer = sqlite3.connect(file, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    with pytest.raises(Unavailable, match="locked"):
        await SqlQuery(url_of(file), seconds=0.1).execute(sql="SELECT * FROM items")
    writer.close()
    await asyncio.to_thread(file.write_text, "no database " * 1000)
    with pytest.raises(ArchonError, match="not a database"):
        await SqlQuery(url_of(file)).execute(sql="SELECT * FROM items")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "shop.db",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///a.db?mode=rwc",
        "mysql://user:pass1@host/db",
        "postgresql://",
        "postgresql://user:pass1@host:port/db",
        "file:///etc/passwd",
    ],
)
def test_url_of_another_kind_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(InvalidArgument, match="invalid database URL") as raised:
        SqlQuery(url)
    assert "pass1" not in str(raised.value)


async def test_engine_returns_json_for_the_model(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    engine = ToolExecutionEngine(ToolRegistry([SqlQuery(url_of(file)), SqlTables(url_of(file))]))
    answer = await engine.execute_tool_call("sql_query", {"sql": "SELECT 1 AS one"})
    assert answer.text == '{"columns": ["one"], "rows": [[1]], "truncated": false}'
    refused = await engine.execute_tool_call("sql_query", {"sql": "DELETE FROM items"})
    assert refused.metadata["code"] == "PERMISSION_DENIED"
    assert (await engine.execute_tool_call("sql_tables", {})).ok
