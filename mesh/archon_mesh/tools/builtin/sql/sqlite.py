"""Reading a SQLite file: opened read-only, by a connection whose authorizer allows nothing but reading."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote

from typing_extensions import override

from archon.errors import (
    ArchonError,
    DeadlineExceeded,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    Unavailable,
    UnknownFailure,
)
from archon.failure_kinds import INVALID_PARAMETERS, TOOL_CRASH, TOOL_NETWORK, TOOL_PERMISSION, TOOL_TIMEOUT
from archon.threads import on_thread
from archon_mesh.tools.builtin.sql.database import (
    MAX_COLUMNS,
    MAX_LISTED,
    MAX_PARAMETERS,
    MAX_SQL,
    Address,
    Column,
    Database,
    Rows,
    Scalar,
)

T = TypeVar("T")

BUSY_SECONDS: Final = 5.0
"""How long a query waits for a writer."""

MAX_VALUE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a value, also within a query."""

_STEPS: Final = 5_000
"""Instructions of SQLite's machine between two looks at the clock: well below a millisecond."""

_ALLOWED: Final = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
_DENIED_FUNCTIONS: Final = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"}
_LIMITS: Final = (
    (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
    (sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES),
    (sqlite3.SQLITE_LIMIT_SQL_LENGTH, 4 * MAX_SQL),
    (sqlite3.SQLITE_LIMIT_COLUMN, 2_000),
    (sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, MAX_PARAMETERS),
    (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
    (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 500),
)
_COLUMNS: Final = """
SELECT tables.name, columns.name, columns.type
FROM sqlite_schema AS tables, pragma_table_info(tables.name) AS columns
WHERE tables.type IN ('table', 'view') AND tables.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
ORDER BY tables.name, columns.cid LIMIT ?
"""


class SqliteDatabase(Database):
    """A file of SQLite. Each query has a connection and a thread of its own."""

    def __init__(self, address: Address) -> None:
        """Raises InvalidArgument unless the URL is sqlite:///PATH, without options."""
        path = unquote(address.path.removeprefix("/"))
        if not path or ":memory:" in path or address.query or "\0" in path:
            raise InvalidArgument("invalid database URL: expected sqlite:///PATH, without options")
        self._path = Path(path).absolute()

    @override
    async def query(self, sql: str, parameters: Sequence[Scalar], seconds: float) -> Rows:
        return await self._run(lambda connection: _query(connection, sql, parameters), seconds)

    @override
    async def columns(self, seconds: float) -> list[Column]:
        def listed(connection: sqlite3.Connection) -> list[Column]:
            connection.set_authorizer(None)  # denies pragmas, and the text of this query is fixed
            return [Column(*map(str, row)) for row in connection.execute(_COLUMNS, (MAX_LISTED + 1,))]

        return await self._run(listed, seconds)

    async def _run(self, read: Callable[[sqlite3.Connection], T], seconds: float) -> T:
        work = _Work(self._path, read, seconds)
        try:
            value, error = await on_thread(work.run, "read a SQLite file")
        except asyncio.CancelledError:
            work.is_stopped = True
            raise
        if error is not None:
            raise _error_of(error, self._path.name, seconds) from None
        result: Any = value
        return result  # type: ignore[no-any-return]


class _Work:
    """One use of a connection, which ends at its deadline, or if it is stopped from another thread."""

    def __init__(self, path: Path, read: Callable[[sqlite3.Connection], object], seconds: float) -> None:
        self._uri = f"file:{quote(str(path))}?mode=ro"
        self._read = read
        self._end = time.monotonic() + seconds
        self._busy_seconds = min(BUSY_SECONDS, seconds)
        self.is_stopped = False

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() >= self._end

    def run(self) -> object:
        """Opens the file, reads, and closes it."""
        connection = sqlite3.connect(self._uri, uri=True, timeout=self._busy_seconds, isolation_level=None)
        try:
            connection.execute("PRAGMA query_only = ON")
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.set_progress_handler(lambda: self.is_stopped or self.is_late, _STEPS)
            for limit, value in _LIMITS:
                connection.setlimit(limit, value)
            connection.set_authorizer(_authorize)
            return self._read(connection)
        finally:
            connection.close()


def _authorize(action: int, first: str | None, second: str | None, _database: str | None, _view: str | None) -> int:
    if action in _ALLOWED:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in _DENIED_FUNCTIONS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _query(connection: sqlite3.Connection, sql: str, parameters: Sequence[Scalar]) -> Rows:
    cursor = connection.execute(sql, tuple(parameters))
    names = [str(column[0]) for column in cursor.description or ()]
    if not names:
        raise InvalidArgument("the query returns nothing: expected SELECT, VALUES or WITH", kind=INVALID_PARAMETERS)
    result = Rows(names[:MAX_COLUMNS], truncated=len(names) > MAX_COLUMNS)
    while (row := cursor.fetchone()) is not None and result.add(row[:MAX_COLUMNS]):
        pass
    return result


def _error_of(error: BaseException, name: str, seconds: float) -> BaseException:
    message = str(error)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if isinstance(error, ArchonError):
        return error
    if code == sqlite3.SQLITE_INTERRUPT:
        return DeadlineExceeded(f"the query takes longer than {seconds:g} s", kind=TOOL_TIMEOUT)
    if code in (sqlite3.SQLITE_AUTH, sqlite3.SQLITE_READONLY) or "not authorized" in message:
        return PermissionDenied(f"the database can only be read: {message}", kind=TOOL_PERMISSION)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Unavailable(f"{name} is locked by a writer", kind=TOOL_NETWORK)
    if code == sqlite3.SQLITE_CANTOPEN:
        return NotFound(f"cannot open the database {name}")
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_IOERR):
        return UnknownFailure(f"cannot read the database {name}: {message}", kind=TOOL_CRASH)
    if isinstance(error, (sqlite3.Error, sqlite3.Warning, OverflowError, ValueError)):
        return InvalidArgument(f"invalid query: {message}", kind=INVALID_PARAMETERS)
    return error
