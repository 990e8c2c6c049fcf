"""Reading a real PostgreSQL: what a query returns, that nothing changes, and which roles are refused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import asyncpg
import pytest

from archon.errors import (
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
)
from archon_mesh.tools import ToolExecutionEngine, ToolRegistry
from archon_mesh.tools.builtin import SqlQuery, SqlTables
from archon_mesh.tools.builtin.sql.database import MAX_CELL, MAX_ROWS
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.waiting import until

PASSWORD = "pa55:w@rd"
QUOTED = "pa55%3Aw%40rd"

SETUP = """
CREATE TABLE items (id bigint PRIMARY KEY, name text, price numeric, made timestamptz DEFAULT '2026-01-01T00:00:00Z');
INSERT INTO items SELECT n, 'item ' || n, n / 2.0 FROM generate_series(1, 500) AS n;
CREATE SEQUENCE numbers;
CREATE FUNCTION add_item() RETURNS bigint LANGUAGE sql AS
  'INSERT INTO items VALUES (9999, ''x'', 1) RETURNING id';
CREATE FUNCTION add_item_as_owner() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS
  'INSERT INTO items VALUES (9998, ''x'', 1) RETURNING id';
CREATE FUNCTION reset_mode() RETURNS text LANGUAGE plpgsql AS
  $$ BEGIN PERFORM set_config('transaction_read_only', 'off', false); INSERT INTO items VALUES (9997, 'x', 1); RETURN 'x'; END $$;
CREATE FUNCTION lock_item() RETURNS int LANGUAGE plpgsql AS
  $$ BEGIN PERFORM pg_advisory_lock(42); RETURN 1; END $$;
CREATE FUNCTION touched(items) RETURNS int LANGUAGE plpgsql AS
  $$ BEGIN PERFORM pg_notify('channel', 'x'); RETURN 1; END $$;
CREATE PROCEDURE commit_and_write(INOUT a int) LANGUAGE plpgsql AS
  $$ BEGIN COMMIT; SET default_transaction_read_only = off; INSERT INTO items VALUES (9996, 'x', 1); END $$;
GRANT ALL ON ALL TABLES IN SCHEMA public TO {role};
GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {role};
GRANT ALL ON SCHEMA public TO {role};
"""
STATE = """SELECT (SELECT md5(string_agg(t::text, '' ORDER BY id)) FROM items AS t), (SELECT last_value FROM numbers),
  (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_roles), (SELECT count(*) FROM pg_largeobject_metadata)"""


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> Iterator[str]:
    """A database with tables that its reader may write, as far as PostgreSQL's grants say."""
    name = postgres.create_database()
    role = f"reader_{name}"
    postgres.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")
    postgres.execute(SETUP.format(role=role), name)
    yield name
    postgres.drop_database(name)
    postgres.execute(f"DROP ROLE {role}")


@pytest.fixture
def url(postgres: PostgresServer, database: str) -> str:
    return f"postgresql://reader_{database}:{QUOTED}@127.0.0.1:{postgres.port}/{database}"


async def test_query_returns_columns_and_rows_as_json(url: str) -> None:
    answer = await SqlQuery(url).execute(
        sql="SELECT id, name, price, made, id > 1 AS more, NULL AS id FROM items WHERE items.id <= $1 ORDER BY items.id;",
        parameters=[2],
    )
    assert answer["columns"] == ["id", "name", "price", "made", "more", "id"]
    assert answer["rows"][0] == [1, "item 1", "0.50000000000000000000", "2026-01-01 00:00:00+00", False, None]
    assert answer["truncated"] is False
    values = await SqlQuery(url).execute(
        sql="VALUES (1.5::float8, '{\"a\": 1}'::jsonb, 'NaN'::float8, $1::text) -- note", parameters=["x"]
    )
    assert values["rows"] == [[1.5, '{"a": 1}', "nan", "x"]]


async def test_tables_are_listed_with_their_columns(url: str) -> None:
    listed = await SqlTables(url).execute()
    assert listed["tables"]["items"] == ["id bigint", "name text", "price numeric", "made timestamp with time zone"]


async def test_rows_and_values_are_bounded_by_the_server(url: str) -> None:
    many = await SqlQuery(url).execute(sql="SELECT id FROM items")
    assert (len(many["rows"]), many["truncated"]) == (MAX_ROWS, True)
    large = await SqlQuery(url).execute(sql="SELECT repeat('x', 50000000)")
    assert (len(large["rows"][0][0]), large["truncated"]) == (MAX_CELL, True)


SLOW = "SELECT count(*) FROM generate_series(1, 100000000) AS a (n), generate_series(1, 1000) AS slow (m)"


async def test_slow_query_is_ended_by_the_server_too(url: str, postgres: PostgresServer) -> None:
    with pytest.raises(DeadlineExceeded, match="within"):
        await SqlQuery(url, seconds=0.5).execute(sql=SLOW)
    count = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'archon sql_query' AND query LIKE '%slow (m)%'"
    )

    await until(lambda: postgres.execute(count) == "0", 30)


@pytest.mark.parametrize("sql", ["SELECT repeat('x', 100000000)::int", "SELECT ('[' || repeat('1,', 50000000))::json"])
async def test_an_error_of_the_server_is_cut(url: str, sql: str) -> None:
    with pytest.raises((InvalidArgument, ResourceExhausted)) as raised:
        await SqlQuery(url).execute(sql=sql)
    assert len(raised.value.message) < 1_000


@pytest.mark.parametrize(
    "attempt",
    [
        "INSERT INTO items VALUES (1000, 'x', 1)",
        "INSERT INTO items VALUES (1000, 'x', 1) RETURNING id",
        "UPDATE items SET name = 'x' RETURNING id",
        "DELETE FROM items",
        "WITH gone AS (DELETE FROM items RETURNING id) SELECT * FROM gone",
        "TRUNCATE items",
        "DROP TABLE items",
        "CREATE TABLE more (id int)",
        "CREATE TEMP TABLE more (id int)",
        "SELECT * INTO more FROM items",
        "SELECT * FROM items FOR UPDATE",
        "LOCK TABLE items",
        "SET TRANSACTION READ WRITE",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
        "SELECT set_config('transaction_read_only', 'off', false)",
        "COMMIT",
        "COMMIT; DROP TABLE items",
        "SELECT 1; DROP TABLE items",
        "SELECT 1) AS q (c0); DROP TABLE items; --",
        "SELECT 1) AS q (c0), (SELECT nextval('numbers')",
        "SELECT 1 /*",
        "BEGIN READ WRITE",
        "DO $$ BEGIN COMMIT; DELETE FROM items; END $$",
        "CALL commit_and_write(1)",
        "SELECT add_item()",
        "SELECT add_item_as_owner()",
        "SELECT reset_mode()",
        "SELECT nextval('numbers')",
        "SELECT setval('numbers', 7)",
        "SELECT query_to_xml('DELETE FROM items RETURNING id', true, true, '')",
        "SELECT query_to_xml('SELECT pg_sleep(1)', true, true, '')",
        "SELECT ts_stat('SELECT pg_notify(''a'', ''b'')')",
        "SELECT ts_rewrite('a'::tsquery, 'SELECT 1')",
        "SELECT pg_sleep(1)",
        "SELECT Pg_Sleep /* a */ (1)",
        'SELECT pg_catalog."pg_sleep"(1)',
        "SELECT 1 LIMIT pg_backend_pid() - pg_backend_pid() + pg_cancel_backend(1)::int",
        "SELECT sum(1) OVER (ROWS pg_cancel_backend(1)::int PRECEDING)",
        "SELECT E'\\'', pg_sleep(1), E'\\''",
        "SELECT $a$ ' $a$, pg_sleep(1), $a$ ' $a$",
        "SELECT pg_notify('channel', 'x')",
        "SELECT pg_advisory_lock(7)",
        "SELECT pg_try_advisory_xact_lock_shared(7)",
        "SELECT pg_logical_emit_message(false, 'a', 'b')",
        "SELECT pg_export_snapshot()",
        "SELECT set_config('statement_timeout', '0', false)",
        "SELECT lock_item()",
        "SELECT (items).touched FROM items",
        "SELECT items.touched FROM items",
        "EXPLAIN ANALYZE DELETE FROM items",
        "PREPARE p AS DELETE FROM items",
        "COPY items TO STDOUT",
        "COPY items TO PROGRAM 'touch /tmp/escaped'",
        "COPY items FROM PROGRAM 'echo 1'",
        "COPY (SELECT 1) TO '/tmp/escaped'",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT pg_ls_dir('/')",
        "SELECT lo_import('/etc/passwd')",
        "SELECT lo_create(0)",
        "SELECT lo_from_bytea(0, 'x')",
        "SELECT lo_export(1, '/tmp/escaped')",
        "SELECT pg_reload_conf()",
        "SELECT pg_switch_wal()",
        "SELECT * FROM dblink('dbname=postgres', 'DELETE FROM items') AS t (a int)",
        "NOTIFY channel",
        "LISTEN channel",
        "ALTER ROLE CURRENT_USER SUPERUSER",
        "SET ROLE archon",
        "GRANT ALL ON items TO PUBLIC",
        "VACUUM items",
    ],
)
async def test_attempt_to_write_changes_nothing(
    url: str, postgres: PostgresServer, database: str, attempt: str
) -> None:
    async with postgres.connection(database) as connection:
        before = await connection.fetchrow(STATE)
        with pytest.raises((PermissionDenied, InvalidArgument)):
            await SqlQuery(url).execute(sql=attempt)
        assert await connection.fetchrow(STATE) == before


@pytest.mark.parametrize("is_own", [True, False], ids=["of its role", "of another role"])
async def test_no_session_can_be_ended(url: str, postgres: PostgresServer, database: str, is_own: bool) -> None:
    async with postgres.connection(database) as administrator:
        own = await asyncpg.connect(url)
        session = own if is_own else administrator
        pid = await session.fetchval("SELECT pg_backend_pid()")
        for call in ("pg_terminate_backend({})", "Pg_Cancel_Backend/**/({})", 'pg_catalog."pg_terminate_backend"({})'):
            with pytest.raises(PermissionDenied):
                await SqlQuery(url).execute(sql=f"SELECT {call.format(pid)}")
        assert await session.fetchval("SELECT 1") == 1
        await own.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT random() < 2, gen_random_uuid() IS NOT NULL, clock_timestamp() IS NOT NULL",
        "SELECT pg_total_relation_size('items') > 0, pg_database_size(current_database()) > 0",
        "SELECT count(*) > 0 FROM items TABLESAMPLE bernoulli (100)",
        "SELECT extract(year FROM made), date_trunc('month', made), now() > made FROM items LIMIT 1",
        "SELECT string_agg(name, ', ' ORDER BY id) FILTER (WHERE id < 3), percentile_cont(0.5) WITHIN GROUP (ORDER BY id) "
        "FROM items",
        "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT sum(i) FROM n",
        "SELECT row_number() OVER (PARTITION BY id % 2 ORDER BY id) FROM items LIMIT 1",
        "SELECT x, y FROM jsonb_to_recordset('[{\"x\": 1}]') AS t (x int, y text)",
        "SELECT 'pg_sleep(1)', $$pg_sleep(1)$$ -- pg_sleep(1)",
        "SELECT coalesce(name, 'none'), CASE WHEN id IN (1, 2) THEN 'few' END FROM items LIMIT 1",
        "SELECT to_tsvector('english', 'a cat') @@ to_tsquery('cat'), regexp_replace('a', 'a', 'b'), md5('x')",
    ],
)
async def test_an_ordinary_query_is_answered(url: str, sql: str) -> None:
    assert (await SqlQuery(url).execute(sql=sql))["rows"]


@pytest.mark.parametrize(
    "right", ["SUPERUSER", "REPLICATION", "pg_read_server_files", "pg_execute_server_program", "pg_signal_backend"]
)
async def test_role_that_may_do_more_than_read_data_is_refused(
    postgres: PostgresServer, database: str, right: str
) -> None:
    role = f"strong_{right.lower()}"
    postgres.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")
    postgres.execute(f"ALTER ROLE {role} {right}" if right.isupper() else f"GRANT {right} TO {role}")
    try:
        with pytest.raises(FailedPrecondition, match="use a role that may only read"):
            await SqlQuery(f"postgresql://{role}:{QUOTED}@127.0.0.1:{postgres.port}/{database}").execute(sql="SELECT 1")
    finally:
        postgres.execute(f"DROP ROLE {role}")


async def test_password_is_in_no_error_log_or_repr(
    url: str, postgres: PostgresServer, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    texts = []
    wrong = [
        url,
        url.replace(str(postgres.port), "1"),
        url.replace(f"reader_{database}", "stranger"),
        url.removesuffix(database) + "nothing_here",
        url + "?sslmode=pa55:w@rd",
        url + f"?sslmode={QUOTED}",
        url + "?sslmode=require",
    ]
    for each in wrong:
        query = SqlQuery(each)
        texts += [repr(query), str(vars(query)), str(vars(query._database)), query.description]
        engine = ToolExecutionEngine(ToolRegistry([query]), sleep=_no_pause)
        for sql in ("SELECT 1 / 0", "SELECT 'a'::int", "SELECT $1", "DELETE FROM items"):
            result = await engine.execute_tool_call("sql_query", {"sql": sql})
            texts.append(f"{result}")
            assert not result.ok
            assert result.metadata["kind"] != "tool.crash" or each.endswith("nothing_here"), result
    everything = "\n".join([*texts, caplog.text])
    assert PASSWORD not in everything
    assert QUOTED not in everything


async def test_server_that_is_down_is_unavailable(url: str, postgres: PostgresServer) -> None:
    with pytest.raises(Unavailable, match="no answer"):
        await SqlQuery(url.replace(str(postgres.port), "1")).execute(sql="SELECT 1")


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELEC 1", []),
        ("SELECT none FROM items", []),
        ("SELECT $1::int", ["x"]),
        ("SELECT $1::int", []),
        ("SELECT 1", [1]),
    ],
)
async def test_wrong_query_is_an_invalid_argument(url: str, sql: str, parameters: list[object]) -> None:
    with pytest.raises(InvalidArgument):
        await SqlQuery(url).execute(sql=sql, parameters=parameters)


async def test_cancelled_query_ends_at_the_server(url: str, postgres: PostgresServer) -> None:
    task = asyncio.create_task(SqlQuery(url, seconds=600).execute(sql=f"{SLOW} WHERE 'cancelled' <> ''"))
    count = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%slow (m) WHERE ''cancelled%' AND state = 'active'"

    await until(lambda: postgres.execute(count) == "1", 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: postgres.execute(count) == "0", 30)


async def _no_pause(_: float) -> None:
    pass
