"""Queries of long-term memory are counted by what they found."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from archon.errors import Unavailable
from archon.telemetry import metrics
from archon.telemetry.metrics import Recorder
from archon_mesh.memory.long_term import LongTermMemory, SqliteLongTermStore
from tests.fixtures.metrics import measuring, reader, recorder, values

__all__ = ["measuring", "reader", "recorder"]


async def test_queries_are_counted_by_their_outcome(
    tmp_path: Path, measuring: Recorder, reader: InMemoryMetricReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteLongTermStore(tmp_path / "memory.db")
    async with LongTermMemory(store, timeout=30) as memory:
        assert values(reader, metrics.MEMORY_QUERIES) == dict.fromkeys(
            [("hit",), ("fallback",), ("empty",), ("failed",)], 0
        )
        await memory.query("Anything?")
        await memory.store("Ana is vegetarian.")
        await memory.store("Ana is vegetarian, and so is Ben.")
        for _ in range(2):  # the second one is answered from the cache
            await memory.query("Is Ana vegetarian?")
        await memory.query("How many moons does Jupiter have?")
        await memory.query("How many moons does Jupiter have?", threshold=0.7)

        async def down(*_: object) -> None:
            raise Unavailable("the store is down")

        monkeypatch.setattr(store, "with_words", down)
        with pytest.raises(Unavailable):
            await memory.query("Another question?")
    assert values(reader, metrics.MEMORY_QUERIES) == {("hit",): 2, ("fallback",): 1, ("empty",): 2, ("failed",): 1}
    assert values(reader, metrics.MEMORY_HITS) == {(): 4}
