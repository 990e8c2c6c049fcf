"""Properties of the shared memory graph for any sequence of calls, and with several threads."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from threading import Barrier

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon_mesh.core.memory_graph import CycleError, MemoryItem, SharedMemoryGraph


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Makes threads switch at nearly every step, so that missing locks are noticed."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def graph_of(*edges: tuple[str, str]) -> SharedMemoryGraph:
    graph = SharedMemoryGraph()
    for src, dst in edges:
        graph.add_edge(src, dst)
    return graph


def sources(items: list[MemoryItem]) -> list[str]:
    return [item.source_id for item in items]


roles = st.sampled_from("abcdefg")


@given(st.lists(st.tuples(roles, roles)))
def test_only_edges_that_close_a_cycle_are_rejected(
    edges: list[tuple[str, str]],
) -> None:
    graph = graph_of()
    model: nx.DiGraph[str] = nx.DiGraph()
    for src, dst in edges:
        closes = src == dst or (src in model and dst in model and nx.has_path(model, dst, src))
        if closes:
            with pytest.raises(CycleError):
                graph.add_edge(src, dst)
        else:
            graph.add_edge(src, dst)
            model.add_edge(src, dst)
    order = graph.get_topological_order()
    assert set(order) == set(model)
    assert set(graph.get_edges_for_nodes(order)) == set(model.edges)
    assert all(order.index(src) < order.index(dst) for src, dst in model.edges)


@given(st.lists(st.tuples(roles, roles)), roles)
def test_indirect_pull_returns_each_ancestor_once(edges: list[tuple[str, str]], node: str) -> None:
    graph = graph_of(*(edge for edge in edges if edge[0] < edge[1]))
    for role in "abcdefg":
        graph.publish(role, role)
    model: nx.DiGraph[str] = nx.DiGraph([edge for edge in edges if edge[0] < edge[1]])
    model.add_node(node)
    pulled = sources(graph.pull_for_indirect(node))
    assert sorted(pulled) == sorted(nx.ancestors(model, node))
    distances = [nx.shortest_path_length(model, source, node) for source in pulled]
    assert distances == sorted(distances)


@given(st.lists(st.sampled_from(["publish", "blank", "clear", "expire", "restore"])))
def test_versions_only_increase(steps: list[str]) -> None:
    now = 0.0
    graph = SharedMemoryGraph(clock=lambda: now)
    versions = []
    for step in steps:
        match step:
            case "publish":
                item = graph.publish("a", "x", ttl=10)
                assert item is not None
                versions.append(item.version)
            case "blank":
                graph.publish("a", " ")
            case "clear":
                graph.clear_published_data()
            case "expire":
                now += 10
            case "restore":
                graph.restore(MemoryItem("a", "old", 0, 1))
    assert all(earlier < later for earlier, later in pairwise(versions))


@pytest.mark.usefixtures("hasty_threads")
def test_concurrent_publications_are_not_lost() -> None:
    graph = graph_of(("a", "b"))
    with ThreadPoolExecutor(8) as pool:
        items = list(pool.map(lambda n: graph.publish("a", f"text {n}", {str(n): n}), range(400)))
    assert sorted(item.version for item in items if item) == list(range(1, 401))
    [last] = graph.pull_for("b")
    assert last.version == 400
    assert last.metadata == {str(n): n for n in range(400)}


@pytest.mark.usefixtures("hasty_threads")
def test_one_of_two_edges_that_close_a_cycle_is_rejected() -> None:
    def add(graph: SharedMemoryGraph, edge: tuple[str, str], start: Barrier) -> bool:
        start.wait()
        try:
            graph.add_edge(*edge)
        except CycleError:
            return False
        return True

    # Neighbours without successors keep the search busy long after it has visited a and b.
    around = [edge for end in "ab" for n in range(300) for edge in ((end, f"{end}+{n}"), (f"{end}-{n}", end))]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(20):
            graph, start = graph_of(*around), Barrier(2)
            first, second = (
                pool.submit(add, graph, ("a", "b"), start),
                pool.submit(add, graph, ("b", "a"), start),
            )
            assert first.result() != second.result()
