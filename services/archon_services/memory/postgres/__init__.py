"""The store in PostgreSQL."""

from archon_services.memory.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
