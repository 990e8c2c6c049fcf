"""The journal in a SQLite file."""

from archon_services.orchestrator.journal.sqlite.journal import SqliteJournal

__all__ = ["SqliteJournal"]
