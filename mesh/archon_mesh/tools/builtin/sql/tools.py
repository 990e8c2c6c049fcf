"""SQL queries and lists of tables as tools."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import override

from archon.errors import InvalidArgument, ResourceExhausted
from archon_mesh.tools.builtin.sql.database import (
    MAX_PARAMETERS,
    MAX_ROWS,
    MAX_SQL,
    Address,
    Database,
    as_tables,
)
from archon_mesh.tools.tool import NO_PARAMETERS, Tool

SECONDS: Final = 10.0
"""Seconds of a query."""

CONNECTING: Final = 10.0
"""Seconds that connecting and closing may take beside the query."""

MAX_RUNNING: Final = 8
"""Queries of one tool at the same time; each has a connection."""

_POSTGRES: Final = ("postgresql", "postgres", "postgresql+asyncpg")
_PARAMETERS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "sql": {"type": "string", "pattern": r"\S", "maxLength": MAX_SQL, "description": "one SELECT statement"},
        "parameters": {
            "type": "array",
            "items": {"type": ["string", "number", "boolean", "null"]},
            "maxItems": MAX_PARAMETERS,
            "description": "values for the placeholders of the statement",
        },
    },
    "required": ["sql"],
    "additionalProperties": False,
}


class _OnDatabase(Tool):
    idempotent = True

    def __init__(self, database_url: str, *, seconds: float = SECONDS) -> None:
        """`database_url` is sqlite:///PATH or postgresql://USER:PASSWORD@HOST/DATABASE; `seconds` limits a query.
        Raises InvalidArgument for any other URL, without repeating it."""
        address = Address(database_url)
        self._is_postgres = address.scheme in _POSTGRES
        self._database = _database(address)
        self._seconds = seconds
        self._running = 0
        self.timeout = seconds + CONNECTING

    @abstractmethod
    async def _read(self, **kwargs: Any) -> Any:
        """Returns the result of the tool."""

    @override
    async def execute(self, **kwargs: Any) -> Any:
        """Returns the result. Raises ResourceExhausted if too many queries run, and the database's errors."""
        if self._running >= MAX_RUNNING:
            raise ResourceExhausted(f"{MAX_RUNNING} queries of {self.name} are running", retry_delay=1.0)
        self._running += 1
        try:
            return await self._read(**kwargs)
        finally:
            self._running -= 1


class SqlQuery(_OnDatabase):
    """Answers a query of a database, which it cannot change: docs/built-in-tools.md says how far that goes."""

    name = "sql_query"
    parameters_schema = _PARAMETERS

    def __init__(self, database_url: str, *, seconds: float = SECONDS) -> None:
        """Has the arguments and errors of SqlTables."""
        super().__init__(database_url, seconds=seconds)
        system, placeholder = ("PostgreSQL", "$1, $2") if self._is_postgres else ("SQLite", "?")
        self.description = (
            f"Reads a {system} database by one SELECT statement with placeholders {placeholder}. Returns columns and "
            f"up to {MAX_ROWS} rows; truncated says that there is more. Nothing can be changed."
        )

    @override
    async def _read(self, **kwargs: Any) -> dict[str, Any]:
        rows = await self._database.query(kwargs["sql"], kwargs.get("parameters", ()), self._seconds)
        return {"columns": rows.columns, "rows": rows.rows, "truncated": rows.truncated}


class SqlTables(_OnDatabase):
    """Lists the tables and views of a database, with the names and types of their columns."""

    name = "sql_tables"
    description = "Lists the tables and views of the database with their columns."
    parameters_schema = {**NO_PARAMETERS, "additionalProperties": False}

    @override
    async def _read(self, **kwargs: Any) -> dict[str, Any]:
        return as_tables(await self._database.columns(self._seconds))


def _database(address: Address) -> Database:
    if address.scheme == "sqlite":
        from archon_mesh.tools.builtin.sql.sqlite import SqliteDatabase

        return SqliteDatabase(address)
    if address.scheme in _POSTGRES:
        from archon_mesh.tools.builtin.sql.postgres import PostgresDatabase

        return PostgresDatabase(address)
    raise InvalidArgument("invalid database URL: expected sqlite:/// or postgresql://")
