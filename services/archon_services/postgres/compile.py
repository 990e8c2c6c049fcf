"""SQLAlchemy's statements as text and arguments for the driver: its language without its connections, which cost ten
times a bare one (docs/adr/0009)."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy.dialects.postgresql.asyncpg import dialect
from sqlalchemy.sql import ClauseElement

_DIALECT: Final = dialect()  # type: ignore[no-untyped-call]


def rendered(statement: ClauseElement) -> tuple[str, list[Any]]:
    """The text with $1, $2, ..., and what they stand for."""
    compiled = statement.compile(dialect=_DIALECT)
    values = compiled.params
    return str(compiled), [values[name] for name in getattr(compiled, "positiontup", None) or ()]
