"""The shared memory graph: structure, publishing and pulling."""

from __future__ import annotations

import networkx as nx
import pytest

from archon.errors import GraphCycle, InvalidArgument
from archon_mesh.core.memory_graph import CycleError, MemoryItem, PropagationPolicy, SharedMemoryGraph

FINAL, TOOLS, FULL = PropagationPolicy


class Clock:
    """A clock that is advanced manually."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def graph_of(*edges: tuple[str, str], clock: Clock | None = None) -> SharedMemoryGraph:
    graph = SharedMemoryGraph(clock=clock or Clock())
    for src, dst in edges:
        graph.add_edge(src, dst)
    return graph


def sources(items: list[MemoryItem]) -> list[str]:
    return [item.source_id for item in items]


def test_adding_again_changes_nothing() -> None:
    graph = graph_of(("a", "b"))
    graph.publish("a", "x")
    before = graph.to_dict()
    graph.add_agent("a")
    graph.add_edge("a", "b")
    assert graph.to_dict() == before


def test_edge_and_publication_add_their_roles() -> None:
    graph = graph_of(("a", "b"))
    graph.publish("c", "x")
    assert [graph.has_node(node) for node in "abcd"] == [True, True, True, False]


def test_unknown_role_pulls_nothing_and_stays_unknown() -> None:
    graph = graph_of()
    assert graph.pull_for("a") == graph.pull_for_indirect("a") == []
    assert not graph.has_node("a")


def test_role_without_a_name_is_rejected() -> None:
    graph = graph_of()
    with pytest.raises(InvalidArgument):
        graph.add_agent("")
    with pytest.raises(InvalidArgument):
        graph.add_edge("a", "")
    with pytest.raises(InvalidArgument):
        graph.publish("", "x")


def test_publish_replaces_the_item_with_the_next_version() -> None:
    clock = Clock()
    graph = graph_of(("a", "b"), clock=clock)
    graph.publish("a", "one")
    clock.now = 1001.5
    published = graph.publish("a", "two")
    assert published == MemoryItem("a", "two", 1001.5, 2)
    assert graph.pull_for("b") == [published]


def test_metadata_is_merged() -> None:
    graph = graph_of(("a", "b"))
    graph.publish("a", "one", {"x": 1, "y": 1})
    graph.publish("a", "two", {"y": 2})
    assert graph.pull_for("b")[0].metadata == {"x": 1, "y": 2}


def test_pulled_and_published_items_are_copies() -> None:
    graph, metadata = graph_of(("a", "b")), {"x": 1}
    published = graph.publish("a", "one", metadata)
    assert published is not None
    metadata["x"] = 2
    published.metadata["x"] = 3  # type: ignore[index]
    graph.pull_for("b")[0].metadata["x"] = 4  # type: ignore[index]
    assert graph.pull_for("b")[0].metadata == {"x": 1}


@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
def test_blank_content_is_not_published(blank: str) -> None:
    graph = graph_of(("a", "b"))
    graph.publish("a", "one")
    before = graph.to_dict()
    assert graph.publish("a", blank) is None
    assert graph.publish("unknown", blank) is None
    assert graph.to_dict() == before


def test_direct_items_come_in_dependency_order_then_by_name() -> None:
    graph = graph_of(("z", "a"), ("z", "goal"), ("a", "goal"), ("m", "goal"), ("silent", "goal"), ("x", "z"))
    for role in "amzx":
        graph.publish(role, role)
    assert sources(graph.pull_for("goal")) == ["m", "z", "a"]


def test_indirect_items_come_breadth_first() -> None:
    edges = [("root", "z"), ("root", "b"), ("z", "goal"), ("b", "goal"), ("c", "root"), ("goal", "after")]
    graph = graph_of(*edges)
    for role in ("root", "z", "b", "c", "after", "goal"):
        graph.publish(role, role)
    assert sources(graph.pull_for_indirect("goal")) == ["b", "z", "root", "c"]


def test_ancestor_on_two_paths_comes_once_at_the_nearest_layer() -> None:
    graph = graph_of(("a", "goal"), ("a", "b"), ("b", "goal"))
    for role in "ab":
        graph.publish(role, role)
    assert sources(graph.pull_for_indirect("goal")) == ["a", "b"]


@pytest.mark.parametrize("edge", PropagationPolicy)
@pytest.mark.parametrize("item", PropagationPolicy)
def test_edge_lets_items_at_or_below_its_policy_through(
    edge: PropagationPolicy,
    item: PropagationPolicy,
) -> None:
    graph = graph_of()
    graph.add_edge("a", "b", edge)
    graph.publish("a", "x", policy=item)
    levels = [FINAL, TOOLS, FULL]
    through = levels.index(item) <= levels.index(edge)
    assert bool(graph.pull_for("b")) == bool(graph.pull_for_indirect("b")) == through


def test_edge_delivers_the_newest_item_that_it_lets_through() -> None:
    graph = graph_of(("a", "final"), ("final", "goal"))
    graph.add_edge("a", "tools", TOOLS)
    graph.add_edge("a", "full", FULL)
    graph.add_edge("tools", "far", TOOLS)

    def seen() -> list[str]:
        return [graph.pull_for(role)[0].content for role in ("final", "tools", "full")]

    graph.publish("a", "answer", {"k": 1})
    graph.publish("a", "all", policy=FULL)
    results = graph.publish("a", "results", policy=TOOLS)
    assert results == MemoryItem("a", "results", 1000.0, 3, TOOLS, {"k": 1})
    assert seen() == ["answer", "results", "results"]
    assert [graph.pull_for_indirect(role)[-1].content for role in ("goal", "far")] == ["answer", "results"]
    copy = SharedMemoryGraph.from_dict(graph.to_dict(), clock=Clock())
    assert copy.to_dict() == graph.to_dict()
    assert [item["version"] for item in copy.to_dict()["items"]] == [1, 2, 3]
    graph.publish("a", "newer answer")
    assert seen() == ["newer answer"] * 3


def test_tasks_of_a_role_keep_an_item_each() -> None:
    graph = graph_of(("a", "b"))
    graph.publish("a", "first", {"k": 1}, task_id="t1")
    graph.publish("a", "second", task_id="t2")
    items = graph.to_dict()["items"]
    assert [(item["task_id"], item["content"]) for item in items] == [("t1", "first"), ("t2", "second")]
    assert [item.content for item in graph.pull_for("b")] == ["second"], "an edge delivers the newest"
    newest = graph.publish("a", "first again", task_id="t1")
    assert newest is not None
    assert (newest.version, newest.metadata) == (3, {"k": 1}), "metadata is merged within a task"
    assert [item.content for item in graph.pull_for("b")] == ["first again"]
    second = graph.publish("a", "second again", task_id="t2")
    assert second is not None
    assert second.metadata == {}
    copy = SharedMemoryGraph.from_dict(graph.to_dict(), clock=Clock())
    assert copy.to_dict() == graph.to_dict()


def test_policies_from_are_those_of_outgoing_edges() -> None:
    graph = graph_of(("a", "b"))
    graph.add_edge("a", "c", FULL)
    graph.add_edge("b", "c", TOOLS)
    assert graph.policies_from("a") == {FINAL, FULL}
    assert graph.policies_from("c") == graph.policies_from("unknown") == set()


def test_edge_added_again_takes_the_new_policy() -> None:
    graph = graph_of(("a", "b"))
    graph.publish("a", "x", policy=FULL)
    graph.add_edge("a", "b", FULL)
    assert sources(graph.pull_for("b")) == ["a"]
    graph.add_edge("a", "b")
    assert graph.pull_for("b") == []


def test_item_needs_a_path_whose_edges_all_let_it_through() -> None:
    graph = graph_of(("mid", "goal"))
    graph.add_edge("top", "mid", FULL)
    graph.publish("top", "x", policy=FULL)
    assert graph.pull_for_indirect("goal") == []
    graph.add_edge("top", "way", FULL)
    graph.add_edge("way", "goal", FULL)
    assert sources(graph.pull_for_indirect("goal")) == ["top"]


def test_expired_item_is_gone_and_its_version_never_returns() -> None:
    clock = Clock()
    graph = graph_of(("a", "b"), clock=clock)
    graph.publish("a", "one", {"x": 1}, ttl=5)
    clock.now = 1004.9
    assert sources(graph.pull_for("b")) == ["a"]
    clock.now = 1005.0
    assert graph.pull_for("b") == graph.pull_for_indirect("b") == graph.to_dict()["items"] == []
    again = graph.publish("a", "two")
    assert again == MemoryItem("a", "two", 1005.0, 2)


@pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf")])
def test_invalid_ttl_is_rejected(ttl: float) -> None:
    with pytest.raises(InvalidArgument):
        graph_of().publish("a", "x", ttl=ttl)


def test_clear_deletes_items_and_keeps_structure_and_versions() -> None:
    graph = graph_of(("a", "b"))
    graph.publish("a", "one", {"x": 1})
    graph.clear_published_data()
    assert graph.pull_for("b") == []
    assert graph.get_edges_for_nodes("ab") == [("a", "b")]
    assert graph.publish("a", "two") == MemoryItem("a", "two", 1000.0, 2)


def test_restored_item_keeps_its_version_and_timestamp() -> None:
    graph = graph_of(("a", "b"))
    item = MemoryItem("a", "kept", 12.5, 7, TOOLS, {"x": 1}, ttl=10_000)
    graph.add_edge("a", "b", TOOLS)
    graph.restore(item)
    graph.restore(MemoryItem("a", "older", 11.5, 6))
    assert graph.pull_for("b") == [item]
    next_one = graph.publish("a", "next")
    assert next_one is not None
    assert next_one.version == 8


def test_edges_and_order_of_a_subset_exclude_other_roles() -> None:
    graph = graph_of(("c", "b"), ("b", "a"), ("c", "a"))
    graph.add_agent("lone")
    assert graph.get_topological_order() == ["c", "b", "a", "lone"]
    assert graph.get_topological_order(["a", "unknown", "c"]) == ["c", "a"]
    assert graph.get_edges_for_nodes(["a", "c", "unknown"]) == [("c", "a")]
    assert graph.get_edges_for_nodes(["a", "b", "c"]) == [("c", "b"), ("c", "a"), ("b", "a")]


def test_order_of_a_subset_accounts_for_roles_in_between() -> None:
    assert graph_of(("z", "m"), ("m", "a")).get_topological_order(["a", "z"]) == ["z", "a"]


@pytest.mark.parametrize(
    ("edges", "closing", "path"),
    [
        ([("a", "b")], ("b", "a"), "a -> b -> a"),
        ([("a", "b"), ("b", "c")], ("c", "a"), "a -> b -> c -> a"),
        ([], ("a", "a"), "a -> a"),
    ],
)
def test_edge_that_closes_a_cycle_changes_nothing(
    edges: list[tuple[str, str]], closing: tuple[str, str], path: str
) -> None:
    graph = graph_of(*edges)
    before = graph.to_dict()
    with pytest.raises(CycleError) as caught:
        graph.add_edge(*closing)
    assert path in str(caught.value)
    assert caught.value.metadata == {"cycle": path}
    assert caught.value.reason == "CYCLE"
    assert graph.to_dict() == before


def test_cycle_error_is_caught_by_each_of_its_base_classes() -> None:
    assert issubclass(CycleError, nx.NetworkXUnfeasible)
    assert issubclass(CycleError, GraphCycle)
    assert issubclass(CycleError, ValueError)
