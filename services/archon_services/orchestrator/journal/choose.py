"""Chooses the journal that a setting names, and imports that journal's dependencies."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from archon.errors import InvalidArgument
from archon_services.orchestrator.journal.memory.journal import MemoryJournal
from archon_services.orchestrator.journal.port import Journal
from archon_services.postgres.dsn import is_dsn


def open_journal(journal: str, sync: Literal["full", "normal"] = "full", *, reset: bool = False) -> Journal:
    """Returns the journal that a setting names, not opened yet: `memory`, `postgresql://...`, else a file. `sync`
    applies to SQLite; PostgreSQL always commits as under `full`. `reset`: whether a file
    is accepted that is not the one of the last start. Raises InvalidArgument if an address cannot be parsed."""
    if journal == "memory":
        return MemoryJournal()
    if is_dsn(journal):
        from archon_services.orchestrator.journal.postgres import PostgresJournal

        return PostgresJournal(journal)
    if "://" in journal:
        raise InvalidArgument(
            "a journal is 'memory', a file, or the address of a PostgreSQL database (postgresql://...)"
        )
    from archon_services.orchestrator.journal.sqlite.journal import SqliteJournal

    return SqliteJournal(Path(journal), sync=sync, reset=reset)
