"""The structure that the memory goes by, and a scope over it."""

from __future__ import annotations

import pytest

from archon.errors import DataLoss, GraphCycle
from archon.registry import Edge, Graph, PropagationPolicy
from archon_mesh.core.memory_item import MemoryItem
from archon_services.memory.domain.scope import Scope
from archon_services.memory.domain.structure import Structure, from_json, to_json
from archon_services.memory.store.port import StoredItem
from archon_services.memory.store.sqlite.store import SqliteStore

EDGES = (
    Edge("a", "b", PropagationPolicy.TOOL_RESULTS, pinned=True),
    Edge("b", "c", declared_by=("c-1", "c-2")),
)
GRAPH = Graph(("a", "b", "c", "lonely"), EDGES, 7)
NOWHERE = "127.0.0.1:1"


def stored(role: str, version: int = 1, ttl: float | None = None) -> StoredItem:
    return StoredItem(MemoryItem(role, f"by {role}", 100.0, version, ttl=ttl), "run", 5)


def sources(found: list[StoredItem]) -> list[str]:
    return [one.item.source_id for one in found]


def test_a_graph_reads_back_as_it_was_kept() -> None:
    assert from_json(to_json(GRAPH)) == GRAPH
    assert from_json(to_json(Graph())) == Graph()


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"roles": [], "revision": 1, "edges": [{"upstream": "a"}]}'])
def test_a_kept_graph_that_cannot_be_read_is_data_loss(text: str) -> None:
    with pytest.raises(DataLoss):
        from_json(text)


async def test_the_last_graph_stands_without_a_registry_and_over_a_restart() -> None:
    async with SqliteStore(":memory:") as store:
        async with Structure(NOWHERE, store) as structure:
            assert structure.graph == Graph()
            await structure.take(GRAPH)
            assert structure.graph == GRAPH
        async with Structure(NOWHERE, store) as structure:
            assert structure.graph == GRAPH


async def test_a_graph_with_a_cycle_is_left_out() -> None:
    async with SqliteStore(":memory:") as store, Structure(NOWHERE, store) as structure:
        await structure.take(GRAPH)
        await structure.take(Graph(("a", "b"), (Edge("a", "b"), Edge("b", "a")), 8))
        assert structure.graph == GRAPH
        assert from_json(await store.structure()) == GRAPH


async def test_a_graph_that_cannot_be_kept_is_gone_by_all_the_same() -> None:
    store = SqliteStore(":memory:")
    async with store:
        structure = Structure(NOWHERE, store)
    await structure.take(GRAPH)
    assert structure.graph == GRAPH


def test_a_scope_pulls_as_the_pure_graph_does_and_keeps_where_items_come_from() -> None:
    scope = Scope(GRAPH, [stored("stranger"), stored("b"), stored("a")], clock=lambda: 100.0)
    assert sources(scope.pull("c")) == ["b"]
    assert sources(scope.pull("c", all_ancestors=True)) == ["b", "a"]
    assert scope.pull("b")[0] == stored("a")
    assert scope.pull("nobody") == []
    assert scope.roles() == ["a", "b", "c", "lonely", "stranger"]
    assert sources(scope.items()) == ["a", "b", "stranger"]


def test_a_scope_shows_nothing_whose_time_is_over() -> None:
    items = [stored("a", ttl=5.0), stored("b", ttl=6.0)]
    assert sources(Scope(GRAPH, items, clock=lambda: 105.0).items()) == ["b"]
    assert Scope(GRAPH, items, clock=lambda: 105.0).pull("b") == []


def test_a_structure_with_a_cycle_makes_no_scope() -> None:
    with pytest.raises(GraphCycle):
        Scope(Graph((), (Edge("a", "a"),), 1), [])
