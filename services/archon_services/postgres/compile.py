"""Compiles SQLAlchemy statements to text and arguments for the driver.

SQLAlchemy's connections cost ten times as much as asyncpg's (docs/adr/0009), so only its expression language is used.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy.dialects.postgresql.asyncpg import dialect
from sqlalchemy.sql import ClauseElement

_DIALECT: Final = dialect()  # type: ignore[no-untyped-call]


def compile_statement(statement: ClauseElement) -> tuple[str, list[Any]]:
    """Returns the text with $1, $2, ..., and the arguments."""
    compiled = statement.compile(dialect=_DIALECT)
    values = compiled.params
    return str(compiled), [values[name] for name in getattr(compiled, "positiontup", None) or ()]
