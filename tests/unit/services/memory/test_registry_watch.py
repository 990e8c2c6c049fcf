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
OTHER = Graph(("x",), (), 6)
GRAPHS = {"default": GRAPH, "acme": OTHER}
UNREACHABLE = "127.0.0.1:1"


async def test_last_graph_stays_without_a_registry_and_after_a_restart() -> None:
    async with SqliteStore(":memory:") as store:
        async with RegistryWatch(UNREACHABLE, store) as watch:
            assert watch.graph("default") == Graph()
            await watch.update(GRAPHS)
            assert watch.graph("default") == GRAPH
        async with RegistryWatch(UNREACHABLE, store) as watch:
            assert (watch.graph("default"), watch.graph("acme"), watch.graph("other")) == (GRAPH, OTHER, Graph())


async def test_a_cyclic_graph_is_ignored_and_those_of_other_tenants_are_not() -> None:
    async with SqliteStore(":memory:") as store, RegistryWatch(UNREACHABLE, store) as watch:
        await watch.update(GRAPHS)
        newer = Graph(("x", "y"), (), 8)
        await watch.update({"default": Graph(("a", "b"), (Edge("a", "b"), Edge("b", "a")), 8), "acme": newer})
        assert watch.graphs == {"default": GRAPH, "acme": newer}
        assert from_json(await store.load_role_graph()) == watch.graphs


async def test_graph_that_cannot_be_stored_is_used_nevertheless() -> None:
    store = SqliteStore(":memory:")
    async with store:
        watch = RegistryWatch(UNREACHABLE, store)
    await watch.update(GRAPHS)
    assert watch.graph("default") == GRAPH
