"""The common parts of the databases: bounds, the form of results, and addresses whose passwords are never shown."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from archon.errors import InvalidArgument
from archon_mesh.tools.credentials import Secret, redacted

MAX_ROWS: Final = 200
MAX_COLUMNS: Final = 100
MAX_CELL: Final = 4_000
"""Characters of a value."""

MAX_RESULT_BYTES: Final = 128 * 1024
"""Bytes of the rows of a result."""

MAX_SQL: Final = 20_000
MAX_PARAMETERS: Final = 100
MAX_LISTED: Final = 2_000
"""Characters of a query, its parameters, and columns of a list of tables."""

Scalar = str | int | float | bool | None


@dataclass(slots=True)
class Rows:
    """The result of a query, within its bounds."""

    columns: list[str]
    rows: list[list[Scalar]] = field(default_factory=list)
    truncated: bool = False
    _bytes: int = 0

    def add(self, row: Iterable[object]) -> bool:
        """Adds a row. Returns False if the result is full, and the row left out."""
        cells = []
        size = 2
        for value in row:
            cell, is_cut = as_cell(value)
            self.truncated |= is_cut
            cells.append(cell)
            size += (4 * len(cell) if isinstance(cell, str) else 20) + 2
        if len(self.rows) >= MAX_ROWS or self._bytes + size > MAX_RESULT_BYTES:
            self.truncated = True
            return False
        self._bytes += size
        self.rows.append(cells)
        return True


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, with its type as the database names it."""

    table: str
    name: str
    type: str


class Database(ABC):
    """A database that can be read."""

    @abstractmethod
    async def query(self, sql: str, parameters: Sequence[Scalar], seconds: float) -> Rows:
        """Returns the result of one query. Raises InvalidArgument for a wrong query, PermissionDenied for one that
        would change something, DeadlineExceeded after `seconds`, Unavailable, NotFound or FailedPrecondition if the
        database cannot be used."""

    @abstractmethod
    async def columns(self, seconds: float) -> list[Column]:
        """Returns the columns of all tables and views, at most MAX_LISTED + 1. Raises the errors of `query`."""


class Address:
    """The URL of a database. `label` is for messages; the URL and its password are shown nowhere."""

    def __init__(self, url: str) -> None:
        """Raises InvalidArgument if it is no URL, without repeating it."""
        try:
            parts = urlsplit(url)
            self.scheme = parts.scheme.lower()
            self.path, self.query = parts.path, parts.query
            host = parts.hostname or ""
            password = unquote(parts.password or "")
            raw_password = parts.password or ""
            port = f":{parts.port}" if parts.port else ""
        except ValueError:
            raise InvalidArgument("invalid database URL: malformed host, port or password") from None
        self.label = f"{host}{port}{unquote(self.path)}" if host else unquote(self.path.lstrip("/"))
        self.url = Secret(url)
        self._hidden = [Secret(text) for text in (url, password, raw_password) if text]

    def redacted(self, text: str) -> str:
        """Returns a text without the URL and its password."""
        return str(redacted(text, self._hidden))

    def __repr__(self) -> str:
        return f"Address({self.label!r})"


def as_cell(value: object) -> tuple[Scalar, bool]:
    """Returns a value as JSON has it, and whether it was cut."""
    if value is None or isinstance(value, (bool, int)):
        return value, False
    if isinstance(value, float):
        return (value if math.isfinite(value) else str(value)), False
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"[{len(value):,} bytes]", False
    text = value if isinstance(value, str) else str(value)
    return text[:MAX_CELL], len(text) > MAX_CELL


def as_tables(columns: Sequence[Column]) -> dict[str, Any]:
    """Returns `tables`, by name the columns with their types, and `truncated` if there are more than MAX_LISTED
    columns."""
    tables: dict[str, list[str]] = {}
    for column in columns[:MAX_LISTED]:
        tables.setdefault(column.table, []).append(f"{column.name} {column.type}".strip())
    return {"tables": tables, "truncated": len(columns) > MAX_LISTED}
