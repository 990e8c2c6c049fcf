"""The registry watch: the last role graph survives restarts and outages."""

from __future__ import annotations

from archon.registry import Edge, Graph, PropagationPolicy
from archon_services.memory.domain.role_graph import from_json
from archon_services.memory.registry_watch import RegistryWatch
from archon_services.memory.store.sqlite.store import SqliteStore

EDGES = (
    Edge("a", "b", PropagationPolicy.TOOL_RESULTS, pinned=True),
    Edge("b", "c", declared_by=("c-1", "c-2")),
)
GRAPH = Graph(("a", "b", "c", "lonely"), EDGES, 7)
UNREACHABLE = "127.0.0.1:1"


async def test_last_graph_stays_without_a_registry_and_after_a_restart() -> None:
    async with SqliteStore(":memory:") as store:
        async with RegistryWatch(UNREACHABLE, store) as watch:
            assert watch.graph == Graph()
            await watch.update(GRAPH)
            assert watch.graph == GRAPH
        async with RegistryWatch(UNREACHABLE, store) as watch:
            assert watch.graph == GRAPH


async def test_cyclic_graph_is_ignored() -> None:
    async with SqliteStore(":memory:") as store, RegistryWatch(UNREACHABLE, store) as watch:
        await watch.update(GRAPH)
        await watch.update(Graph(("a", "b"), (Edge("a", "b"), Edge("b", "a")), 8))
        assert watch.graph == GRAPH
        assert from_json(await store.load_role_graph()) == GRAPH


async def test_graph_that_cannot_be_stored_is_used_nevertheless() -> None:
    store = SqliteStore(":memory:")
    async with store:
        watch = RegistryWatch(UNREACHABLE, store)
    await watch.update(GRAPH)
    assert watch.graph == GRAPH
