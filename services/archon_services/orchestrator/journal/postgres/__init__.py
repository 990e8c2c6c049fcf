"""The journal in PostgreSQL."""

from archon_services.orchestrator.journal.postgres.journal import PostgresJournal

__all__ = ["PostgresJournal"]
