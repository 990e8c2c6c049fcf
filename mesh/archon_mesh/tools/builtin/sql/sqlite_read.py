"""Reads a SQLite file, opened read-only, by a connection whose authorizer allows nothing but reading.

Runs in a process of its own, which `sqlite` starts: no function of SQLite can be interrupted within, and the limit of
its memory is the process's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

from archon.errors import ArchonError, InvalidArgument, NotFound, PermissionDenied, Unavailable, UnknownFailure
from archon.failure_kinds import INVALID_PARAMETERS, TOOL_CRASH, TOOL_NETWORK, TOOL_PERMISSION
from archon_mesh.tools.builtin.sql.database import MAX_COLUMNS, MAX_LISTED, MAX_PARAMETERS, MAX_SQL, Rows

BUSY_SECONDS: Final = 5.0
"""How long a query waits for a writer."""

BUSY_PART: Final = 0.8
"""The part of its time that a query waits at most, so that it can say so."""

MAX_VALUE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a value, also within a query."""

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


def answer(request: Any) -> Any:
    """Answers a request of `SqliteDatabase`: a query, or the columns if there is no text. Raises the errors of
    `Database.query`."""
    try:
        return _read(request)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - raised again, with the name of the file
        raise _error_of(error, request["name"]) from None


def _read(request: Any) -> Any:
    seconds = min(BUSY_SECONDS, request["seconds"] * BUSY_PART)
    uri = f"file:{quote(request['path'])}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, timeout=seconds, isolation_level=None)
    try:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        for limit, value in _LIMITS:
            connection.setlimit(limit, value)
        if request["sql"] is None:  # the text of this query is fixed; the authorizer would deny its pragma
            return [list(map(str, row)) for row in connection.execute(_COLUMNS, (MAX_LISTED + 1,))]
        connection.set_authorizer(_authorize)
        rows = _query(connection, request["sql"], request["parameters"])
        return {"columns": rows.columns, "rows": rows.rows, "truncated": rows.truncated}
    finally:
        connection.close()


def _authorize(action: int, first: str | None, second: str | None, _database: str | None, _view: str | None) -> int:
    if action in _ALLOWED:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in _DENIED_FUNCTIONS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _query(connection: sqlite3.Connection, sql: str, parameters: Sequence[object]) -> Rows:
    cursor = connection.execute(sql, tuple(parameters))
    names = [str(column[0]) for column in cursor.description or ()]
    if not names:
        raise InvalidArgument("the query returns nothing: expected SELECT, VALUES or WITH", kind=INVALID_PARAMETERS)
    result = Rows(names[:MAX_COLUMNS], truncated=len(names) > MAX_COLUMNS)
    while (row := cursor.fetchone()) is not None and result.add(row[:MAX_COLUMNS]):
        pass
    return result


def _error_of(error: Exception, name: str) -> Exception:
    message = str(error)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if isinstance(error, ArchonError):
        return error
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
