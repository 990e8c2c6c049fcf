"""The one place that knows the stores by name. What a store needs is imported only where it is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from archon.errors import InvalidArgument
from archon_services.memory.store.sqlite.store import SqliteStore
from archon_services.postgres.dsn import is_dsn

if TYPE_CHECKING:
    from archon_services.memory.store.postgres import PostgresStore


def open_store(db: str, sync: Literal["full", "normal"] = "full") -> SqliteStore | PostgresStore:
    """The store that a setting names, not entered yet: `postgresql://...`, `:memory:`, else a file. `sync` is SQLite's;
    PostgreSQL commits as under `full`. Raises InvalidArgument where an address can't be read."""
    if is_dsn(db):
        from archon_services.memory.store.postgres import PostgresStore

        return PostgresStore(db)
    if "://" in db:
        raise InvalidArgument(
            "a store is ':memory:', a file, or the address of a PostgreSQL database (postgresql://...)"
        )
    return SqliteStore(db, sync=sync)
