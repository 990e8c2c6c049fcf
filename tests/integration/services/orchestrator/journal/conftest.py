"""Fixtures that open journals of each store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from archon_services.orchestrator.journal import Journal, MemoryJournal
from archon_services.orchestrator.journal.postgres import PostgresJournal
from archon_services.orchestrator.journal.sqlite import SqliteJournal

STORES = ["memory", "sqlite-full", "sqlite-normal", "postgres"]


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Journal]:
    """Creates journals of a store, all with the same file or database of this test."""

    def make(store: str) -> Journal:
        if store == "postgres":
            return PostgresJournal(request.getfixturevalue("postgres_dsn"))
        if store == "memory":
            return MemoryJournal()
        return SqliteJournal(tmp_path / "journal.db", sync="full" if store == "sqlite-full" else "normal")

    return make


@pytest.fixture(params=STORES)
async def journal(request: pytest.FixtureRequest, place: Callable[[str], Journal]) -> AsyncIterator[Journal]:
    """A journal of each store, empty."""
    opened = place(request.param)
    await opened.open()
    yield opened
    await opened.close()
