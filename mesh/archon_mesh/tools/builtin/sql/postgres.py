"""Reading a PostgreSQL database: one query in a READ ONLY transaction, by a role with no rights beyond data, without
functions that act beyond the transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from typing_extensions import override

from archon.errors import (
    ArchonError,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
)
from archon.failure_kinds import (
    INVALID_PARAMETERS,
    TOOL_CRASH,
    TOOL_NETWORK,
    TOOL_PERMISSION,
    TOOL_RESOURCES,
    TOOL_TIMEOUT,
)
from archon_mesh.tools.builtin.sql.called_names import names_in
from archon_mesh.tools.builtin.sql.database import (
    MAX_CELL,
    MAX_COLUMNS,
    MAX_LISTED,
    MAX_ROWS,
    Address,
    Column,
    Database,
    Rows,
    Scalar,
)

T = TypeVar("T")

CONNECT_SECONDS: Final = 5.0
CLOSE_SECONDS: Final = 1.0
BATCH: Final = 10
"""Rows that are fetched at once."""

MAX_RECEIVED: Final = 16 * 1024 * 1024
"""Bytes that the server sends for a query, its errors included."""

MAX_MESSAGE: Final = 500
"""Characters of an error of the server."""

_ROLES: Final = (
    "pg_read_server_files",
    "pg_write_server_files",
    "pg_execute_server_program",
    "pg_signal_backend",
    "pg_checkpoint",
    "pg_maintain",
    "pg_create_subscription",
)
_RIGHTS: Final = """
SELECT CASE WHEN rolsuper THEN 'is a superuser' WHEN rolreplication THEN 'may replicate'
  ELSE (SELECT 'is a member of ' || rolname FROM pg_roles AS granted
        WHERE rolname = ANY($1::text[]) AND pg_has_role(current_user, granted.oid, 'MEMBER') LIMIT 1) END
FROM pg_roles WHERE rolname = session_user
"""
# A function that may act, by its volatility, in any spelling of the query. Functions of extensions that execute the
# text of another query are declared as if they did not.
_ACTING: Final = """
SELECT proname FROM pg_catalog.pg_proc
WHERE (proname::text = ANY($1::text[]) AND (provolatile = 'v' OR proname::text = ANY($4::text[]))
    OR proname::text = ANY($2::text[]) AND provolatile = 'v' AND pronargs = 1 AND EXISTS
      (SELECT FROM pg_catalog.pg_type WHERE pg_type.oid = proargtypes[0] AND (typtype = 'c' OR typname = 'record')))
  AND NOT (pronamespace = 'pg_catalog'::regnamespace AND proname::text = ANY($3::text[]))
LIMIT 1
"""
_HARMLESS: Final = (
    *("random", "random_normal", "setseed", "gen_random_uuid", "uuidv4", "uuidv7", "array_sample", "array_shuffle"),
    *("clock_timestamp", "timeofday", "current_query", "bernoulli", "system", "currval", "lastval"),
    *("pg_database_size", "pg_tablespace_size", "pg_relation_size", "pg_table_size", "pg_indexes_size"),
    *("pg_total_relation_size", "pg_partition_tree", "pg_partition_ancestors", "pg_blocking_pids", "pg_lock_status"),
    *("pg_is_in_recovery", "pg_last_wal_receive_lsn", "pg_last_wal_replay_lsn", "pg_last_xact_replay_timestamp"),
    *("pg_current_wal_lsn", "pg_current_wal_insert_lsn", "pg_current_wal_flush_lsn", "pg_jit_available"),
)
_EXECUTING: Final = ("crosstab", "crosstab2", "crosstab3", "crosstab4", "crosstabn", "connectby", "xpath_table")
_COLUMNS: Final = """
SELECT CASE WHEN table_schema = 'public' THEN table_name ELSE table_schema || '.' || table_name END,
  column_name, data_type FROM information_schema.columns
WHERE table_schema NOT IN ('information_schema', 'pg_catalog') AND table_schema NOT LIKE 'pg\\_toast%'
ORDER BY 1, ordinal_position LIMIT $1
"""
_PLAIN: Final = {"int2", "int4", "int8", "float4", "float8", "bool"}
"""Types whose values are JSON; others are read as text, which the server cuts."""


class PostgresDatabase(Database):
    """A database of PostgreSQL. Each query has a connection of its own, which is closed afterwards."""

    def __init__(self, address: Address) -> None:
        """Raises InvalidArgument if the URL names no host."""
        if not address.url.reveal().partition("://")[2]:
            raise InvalidArgument("invalid database URL: expected postgresql://USER:PASSWORD@HOST/DATABASE")
        self._address = address

    @override
    async def query(self, sql: str, parameters: Sequence[Scalar], seconds: float) -> Rows:
        names = names_in(sql)
        async with self._errors(seconds), self._transaction(seconds) as connection:
            lists = (names.called, names.after_dot, _HARMLESS, _EXECUTING)
            if (name := await connection.fetchval(_ACTING, *map(list, lists))) is not None:
                raise PermissionDenied(
                    f"the function {name} may act beyond a read-only transaction (it is volatile)", kind=TOOL_PERMISSION
                )
            return await _query(connection, sql, parameters)

    @override
    async def columns(self, seconds: float) -> list[Column]:
        async with self._errors(seconds), self._transaction(seconds) as connection:
            return [Column(*map(str, row)) for row in await connection.fetch(_COLUMNS, MAX_LISTED + 1)]

    @asynccontextmanager
    async def _transaction(self, seconds: float) -> AsyncIterator[Any]:
        """Opens a connection and a READ ONLY transaction, which is rolled back."""
        import asyncpg

        async with asyncio.timeout(CONNECT_SECONDS):
            connection = await asyncpg.connect(
                "postgresql://" + self._address.url.reveal().partition("://")[2],
                timeout=CONNECT_SECONDS,
                statement_cache_size=0,
                server_settings={
                    "application_name": "archon sql_query",
                    "default_transaction_read_only": "on",
                    "standard_conforming_strings": "on",  # as `names_in` reads texts
                    "statement_timeout": str(round(seconds * 1000)),
                    "lock_timeout": str(round(seconds * 1000)),
                    "client_connection_check_interval": "1000",  # a cancelled query ends at the server, too
                    "idle_in_transaction_session_timeout": str(round((seconds + CONNECT_SECONDS) * 1000)),
                },
            )
        received = _Received.of(connection)
        try:
            async with asyncio.timeout(seconds):
                await connection.transaction(readonly=True).start()
                # The first query also fixes the mode: from then on, no statement makes the transaction READ WRITE.
                if (right := await connection.fetchval(_RIGHTS, list(_ROLES))) is not None:
                    raise FailedPrecondition(
                        f"the database role {right}, and could act beyond a read-only transaction; "
                        "use a role that may only read"
                    )
                yield connection
                await connection.execute("ROLLBACK", timeout=CLOSE_SECONDS)
        except Exception:
            if received.size > MAX_RECEIVED:
                message = f"the server sends more than {MAX_RECEIVED // (1024 * 1024)} MiB for the query"
                raise ResourceExhausted(message, kind=TOOL_RESOURCES) from None
            raise
        finally:
            connection.terminate()

    @asynccontextmanager
    async def _errors(self, seconds: float) -> AsyncIterator[None]:
        try:
            yield
        except ArchonError:
            raise
        except Exception as error:  # noqa: BLE001 - none may pass with the password in its text or its traceback
            raise self._error_of(error, seconds) from None

    def _error_of(self, error: Exception, seconds: float) -> ArchonError:
        import asyncpg

        state = getattr(error, "sqlstate", None) or ""
        message = self._address.redacted(str(getattr(error, "message", None) or error)).partition("\n")[0][:MAX_MESSAGE]
        place = self._address.label
        if state == "57014" or (isinstance(error, TimeoutError) and error.errno is None):
            return DeadlineExceeded(f"no result of {place} within {seconds:g} s", kind=TOOL_TIMEOUT)
        if state in ("25006", "42501"):
            return PermissionDenied(f"the database can only be read: {message}", kind=TOOL_PERMISSION)
        if state.startswith("28"):
            return PermissionDenied(f"{place} refuses the user or the password", kind=TOOL_PERMISSION)
        if state == "3D000":
            return FailedPrecondition(f"no such database: {place}", kind=TOOL_CRASH)
        if state[:2] in ("08", "53", "57", "55") or isinstance(error, (OSError, asyncpg.InterfaceError)):
            is_wrong = isinstance(error, (asyncpg.DataError, asyncpg.exceptions.ClientConfigurationError))
            if not is_wrong:
                return Unavailable(f"no answer of {place}: {message}", kind=TOOL_NETWORK)
        return InvalidArgument(f"invalid query: {message}", kind=INVALID_PARAMETERS)


class _Received(asyncio.Protocol):
    """Counts the bytes received, and ends the connection at MAX_RECEIVED: an error of the server repeats a value
    whole."""

    def __init__(self, transport: asyncio.Transport, protocol: asyncio.Protocol) -> None:
        self.size = 0
        self._transport = transport
        self._protocol = protocol

    @classmethod
    def of(cls, connection: Any) -> _Received:
        """Counts the bytes that a connection of asyncpg receives from now on."""
        transport: asyncio.Transport = connection._transport
        received = cls(transport, transport.get_protocol())  # type: ignore[arg-type]
        transport.set_protocol(received)
        return received

    @override
    def data_received(self, data: bytes) -> None:
        self.size += len(data)
        if self.size > MAX_RECEIVED:
            self._transport.abort()
        else:
            self._protocol.data_received(data)

    @override
    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(exc)

    @override
    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    @override
    def resume_writing(self) -> None:
        self._protocol.resume_writing()


async def _query(connection: Any, sql: str, parameters: Sequence[Scalar]) -> Rows:
    sql = sql.strip().rstrip(";")
    # Prepared alone: a text of several statements is an error of the server, and so is one that is only complete
    # within the query below.
    attributes = (await connection.prepare(sql)).get_attributes()
    if not attributes:
        raise InvalidArgument("the query returns nothing: expected SELECT, VALUES or WITH", kind=INVALID_PARAMETERS)
    shown = attributes[:MAX_COLUMNS]
    aliases = ", ".join(f"c{number}" for number in range(len(attributes)))
    # The server cuts values, so that no single one fills the memory of the agent.
    columns = ", ".join(
        f"c{number}" if attribute.type.name in _PLAIN else f"left(c{number}::text, {MAX_CELL + 1})"
        for number, attribute in enumerate(shown)
    )
    bounded = f"SELECT {columns} FROM (\n{sql}\n) AS archon_query ({aliases}) LIMIT {MAX_ROWS + 1}"
    statement = await connection.prepare(bounded)
    if (expected := len(statement.get_parameters())) != len(parameters):
        raise InvalidArgument(
            f"the query has {expected} placeholders, and {len(parameters)} parameters", kind=INVALID_PARAMETERS
        )
    cursor = await statement.cursor(*parameters)
    result = Rows([attribute.name for attribute in shown], truncated=len(attributes) > len(shown))
    while rows := await cursor.fetch(BATCH):
        if not all(result.add(row.values()) for row in rows):
            break
    return result
