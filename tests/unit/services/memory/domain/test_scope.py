"""Scopes: which items a role may read."""

from __future__ import annotations

import pytest

from archon.errors import GraphCycle
from archon.registry import Edge, Graph, PropagationPolicy
from archon_mesh.core.memory_item import MemoryItem
from archon_services.memory.domain.items import StoredItem
from archon_services.memory.domain.scope import Scope

EDGES = (
    Edge("a", "b", PropagationPolicy.TOOL_RESULTS, pinned=True),
    Edge("b", "c", declared_by=("c-1", "c-2")),
)
GRAPH = Graph(("a", "b", "c", "lonely"), EDGES, 7)


def stored(role: str, version: int = 1, ttl: float | None = None) -> StoredItem:
    return StoredItem(MemoryItem(role, f"by {role}", 100.0, version, ttl=ttl), "run", 5)


def sources(items: list[StoredItem]) -> list[str]:
    return [entry.item.source_id for entry in items]


def test_scope_pulls_as_the_pure_graph_does_and_keeps_origins() -> None:
    scope = Scope(GRAPH, [stored("stranger"), stored("b"), stored("a")], clock=lambda: 100.0)
    assert sources(scope.pull("c")) == ["b"]
    assert sources(scope.pull("c", all_ancestors=True)) == ["b", "a"]
    assert scope.pull("b")[0] == stored("a")
    assert scope.pull("unknown") == []
    assert scope.roles() == ["a", "b", "c", "lonely", "stranger"]
    assert sources(scope.items()) == ["a", "b", "stranger"]


def test_scope_omits_expired_items() -> None:
    items = [stored("a", ttl=5.0), stored("b", ttl=6.0)]
    assert sources(Scope(GRAPH, items, clock=lambda: 105.0).items()) == ["b"]
    assert Scope(GRAPH, items, clock=lambda: 105.0).pull("b") == []


def test_scope_of_a_cyclic_graph_is_refused() -> None:
    with pytest.raises(GraphCycle):
        Scope(Graph((), (Edge("a", "a"),), 1), [])


def test_scope_delivers_the_newest_item_that_an_edge_lets_through() -> None:
    wide = StoredItem(MemoryItem("a", "results", 100.0, 2, PropagationPolicy.TOOL_RESULTS), "run", 6)
    graph = Graph(("a", "b", "c"), (EDGES[0], Edge("a", "c")), 8)
    scope = Scope(graph, [wide, stored("a")], clock=lambda: 100.0)
    assert (scope.pull("b"), scope.pull("c")) == ([wide], [stored("a")])
    assert scope.items() == [stored("a"), wide]
