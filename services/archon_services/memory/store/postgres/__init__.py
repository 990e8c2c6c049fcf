"""The store in PostgreSQL."""

from archon_services.memory.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
