"""The stores that pass the conformance suite."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from archon_mesh.memory.long_term.port import LongTermStore
from archon_mesh.memory.long_term.sqlite import SqliteLongTermStore
from archon_mesh.memory.long_term.weaviate import WeaviateLongTermStore
from tests.fixtures.weaviate import WeaviateProcess, running_weaviate


@pytest.fixture(scope="session")
def weaviate_server() -> Iterator[WeaviateProcess]:
    """A running Weaviate."""
    with running_weaviate() as server:
        yield server


@pytest.fixture(params=["sqlite", "sqlite_in_memory", pytest.param("weaviate", marks=pytest.mark.slow)])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LongTermStore]:
    """An empty store of each kind."""
    opened: LongTermStore
    if request.param == "sqlite":
        opened = SqliteLongTermStore(tmp_path / "long_term.db")
    elif request.param == "sqlite_in_memory":
        opened = SqliteLongTermStore(":memory:")
    else:
        server: WeaviateProcess = request.getfixturevalue("weaviate_server")
        opened = WeaviateLongTermStore(server.url, collection=f"Test{uuid.uuid4().hex}")
    async with opened:
        yield opened
