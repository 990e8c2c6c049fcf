"""A long-term memory in a SQLite file, and agents that use it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archon_mesh.memory.long_term import LongTermMemory, Outbox, SqliteLongTermStore


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[LongTermMemory]:
    """An open memory with its outbox."""
    store = SqliteLongTermStore(tmp_path / "long_term.db")
    async with LongTermMemory(store, outbox=Outbox(tmp_path / "outbox.db")) as opened:
        yield opened
