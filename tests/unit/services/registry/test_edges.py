"""The graph of roles: whatever roles declare and operators pin, in whatever order, it stays acyclic."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon.api.common.v1.common_pb2 import (
    PROPAGATION_POLICY_FINAL_RESPONSE_ONLY,
    PROPAGATION_POLICY_FULL_HISTORY,
    PROPAGATION_POLICY_TOOL_RESULTS,
    Edge,
)
from archon.api.registry.v1.registry_pb2 import DependsOn, Graph, Registration
from archon.errors import AlreadyExists, GraphCycle
from archon_services.common.versions import version_key
from archon_services.registry.domain import edges
from archon_services.registry.domain.state import State, edge_key, pin_key

ROLES = ["a", "b", "c", "d", "e"]


def declared(instance: str, role: str, *upstreams: str, version: str = "1", policy: int = 1) -> Registration:
    registration = Registration(instance_id=instance, role=role, version=version, address="host:1")
    for upstream in upstreams:
        registration.depends_on.append(DependsOn(role=upstream, policy=policy))  # type: ignore[arg-type]
    return registration


def after(state: State, registration: Registration) -> State:
    return state.changed(edges.register(state, registration)[0], state.revision + 1)


def gone(state: State, instance: str) -> State:
    update = {f"instances/{instance}": None, **{key: None for key in state.edges if key.endswith(f"/{instance}")}}
    return state.changed(update, state.revision + 1)


def pairs(graph: Graph) -> set[tuple[str, str]]:
    return {(edge.upstream, edge.downstream) for edge in graph.edges}


def test_an_edge_whose_upstream_has_no_instance_counts() -> None:
    graph = edges.graph(after(State(), declared("b1", "b", "a")))
    assert pairs(graph) == {("a", "b")}
    assert list(graph.roles) == ["a", "b"]
    assert list(graph.edges[0].declared_by) == ["b1"]


def test_the_edge_that_closes_a_cycle_is_refused_with_its_path_and_the_registration_stands() -> None:
    state = after(after(State(), declared("b1", "b", "a")), declared("c1", "c", "b"))
    update, refused = edges.register(state, declared("a1", "a", "c", "x"))
    assert [one.cycle for one in refused] == ["c -> a -> b -> c"]
    graph = edges.graph(state.changed(update, 9))
    assert pairs(graph) == {("a", "b"), ("b", "c"), ("x", "a")}
    assert [(one.edge.upstream, one.cycle) for one in graph.refused] == [("c", "c -> a -> b -> c")]


def test_a_role_that_depends_on_itself_is_a_cycle() -> None:
    _, refused = edges.register(State(), declared("a1", "a", "a"))
    assert [one.cycle for one in refused] == ["a -> a"]
    with pytest.raises(GraphCycle) as caught:
        edges.pin(State(), [Edge(upstream="a", downstream="a")])
    assert caught.value.metadata["cycle"] == "a -> a"


def test_registering_again_with_the_same_content_writes_nothing() -> None:
    registration = declared("b1", "b", "a")
    assert edges.register(after(State(), registration), registration) == ({}, [])


def test_a_refused_edge_is_accepted_on_renewal_once_nothing_is_in_its_way() -> None:
    state = after(after(State(), declared("b1", "b", "a")), declared("a1", "a", "b"))
    state = gone(state, "b1")
    assert [one.cycle for one in edges.graph(state).refused] == [""]
    graph = edges.graph(after(state, declared("a1", "a", "b")))
    assert pairs(graph) == {("b", "a")}
    assert not graph.refused


def test_a_newer_version_decides_the_edges_of_its_role() -> None:
    state = after(State(), declared("r1", "r", "old", "both", version="1.9"))
    state = after(state, declared("r2", "r", "both", "new", version="1.10"))
    assert pairs(edges.graph(state)) == {("both", "r"), ("new", "r")}
    assert not edges.graph(state).refused
    state = after(state, declared("r1", "r", "old", "both", version="1.9"))
    assert pairs(edges.graph(state)) == {("both", "r"), ("new", "r")}, "an older one's renewal changes nothing"


def test_after_a_rollback_the_older_version_gets_its_edges_back() -> None:
    state = after(State(), declared("r1", "r", "old", "both", version="1"))
    state = gone(after(state, declared("r2", "r", "both", version="2")), "r2")
    assert pairs(edges.graph(state)) == {("both", "r")}, "what both declare never flickers"
    assert pairs(edges.graph(after(state, declared("r1", "r", "old", "both", version="1")))) == {
        ("old", "r"),
        ("both", "r"),
    }


def test_a_newer_version_may_turn_an_edge_around() -> None:
    state = after(State(), declared("r1", "r", "a", version="1"))
    state = after(state, declared("r2", "r", version="2"))
    _, refused = edges.register(state, declared("a2", "a", "r", version="2"))
    assert not refused


def test_an_instance_that_declares_less_takes_only_its_own_edges_away() -> None:
    state = after(after(State(), declared("r1", "r", "a", "b")), declared("r2", "r", "a"))
    state = after(state, declared("r1", "r", "b"))
    assert pairs(edges.graph(state)) == {("a", "r"), ("b", "r")}
    assert list(edges.graph(state).edges[0].declared_by) == ["r2"]


def test_another_role_or_owner_under_the_same_instance_id_is_a_conflict() -> None:
    state = after(State(), declared("x", "r"))
    with pytest.raises(AlreadyExists) as caught:
        edges.register(state, declared("x", "other"))
    assert caught.value.reason == "CONFLICT"
    stranger = declared("x", "r")
    stranger.identity = "somebody"
    with pytest.raises(AlreadyExists):
        edges.register(state, stranger)


def test_of_several_declarations_the_widest_policy_counts_and_a_pin_before_all() -> None:
    state = after(State(), declared("r1", "r", "a"))
    state = after(state, declared("r2", "r", "a", policy=PROPAGATION_POLICY_FULL_HISTORY))
    assert edges.graph(state).edges[0].policy == PROPAGATION_POLICY_FULL_HISTORY
    pin = Edge(upstream="a", downstream="r", policy=PROPAGATION_POLICY_TOOL_RESULTS)
    edge = edges.graph(state.changed(edges.pin(state, [pin]), 9)).edges[0]
    assert (edge.policy, edge.pinned, list(edge.declared_by)) == (PROPAGATION_POLICY_TOOL_RESULTS, True, ["r1", "r2"])


def test_pins_go_in_all_or_none() -> None:
    state = after(State(), declared("b1", "b", "a"))
    with pytest.raises(GraphCycle) as caught:
        edges.pin(state, [Edge(upstream="x", downstream="y"), Edge(upstream="b", downstream="a")])
    assert caught.value.metadata["cycle"] == "b -> a -> b"


def test_a_cycle_written_past_the_registry_is_shown_as_refused() -> None:
    state = State(
        edges={edge_key("b", "a", "i"): Edge(upstream="b", downstream="a", declared_by=["i"])},
        pins={pin_key("a", "b"): Edge(upstream="a", downstream="b", pinned=True)},
    )
    graph = edges.graph(state)
    assert pairs(graph) == {("a", "b")}
    assert [one.cycle for one in graph.refused] == ["b -> a -> b"]
    assert graph.edges[0].policy in (0, PROPAGATION_POLICY_FINAL_RESPONSE_ONLY)


@pytest.mark.parametrize(("older", "newer"), [("1.9", "1.10"), ("", "0.0.1"), ("1.2", "1.2.1"), ("9", "10")])
def test_versions_compare_by_their_numbers(older: str, newer: str) -> None:
    assert version_key(older) < version_key(newer)


def test_trailing_zeros_of_a_version_say_nothing() -> None:
    assert version_key("1.0.0") == version_key("1")


role = st.sampled_from(ROLES)
steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("register"),
            st.integers(0, 5),
            role,
            st.lists(role, unique=True, max_size=4),
            st.sampled_from(["1", "1.2", "2"]),
        ),
        st.tuples(st.just("gone"), st.integers(0, 5)),
        st.tuples(st.just("pin"), st.lists(st.tuples(role, role), min_size=1, max_size=3)),
        st.tuples(st.just("unpin"), st.tuples(role, role)),
    ),
    max_size=25,
)


@given(steps)
def test_the_graph_is_acyclic_at_every_revision(history: list[tuple[object, ...]]) -> None:
    """D29, V14: also the raw keys, of which any reader may make a graph of its own."""
    state = State()
    for step in history:
        match step:
            case ("register", int(number), str(name), list(upstreams), str(version)):
                try:
                    state = after(state, declared(f"i{number}", name, *upstreams, version=version))
                except AlreadyExists:
                    continue
            case ("gone", int(number)):
                state = gone(state, f"i{number}")
            case ("pin", list(wanted)):
                try:
                    update = edges.pin(state, [Edge(upstream=u, downstream=d) for u, d in wanted])
                except GraphCycle:
                    continue
                state = state.changed(update, state.revision + 1)
            case ("unpin", (str(upstream), str(downstream))):
                update = edges.unpin(state, [Edge(upstream=upstream, downstream=downstream)])
                state = state.changed(update, state.revision + 1)
        raw: nx.DiGraph[str] = nx.DiGraph(list(state.pairs()))
        assert nx.is_directed_acyclic_graph(raw)
        graph = edges.graph(state)
        assert pairs(graph) == set(raw.edges)
        place = {name: index for index, name in enumerate(graph.roles)}
        assert all(place[edge.upstream] < place[edge.downstream] for edge in graph.edges)
        assert set(place) >= {one.role for one in state.instances.values()}


@given(st.lists(st.tuples(role, role), max_size=12), role, role)
def test_a_cycle_path_is_found_exactly_where_there_is_one(known: list[tuple[str, str]], u: str, d: str) -> None:
    path = edges.cycle_path(known, u, d)
    graph: nx.DiGraph[str] = nx.DiGraph(known)
    graph.add_nodes_from([u, d])
    assert bool(path) == nx.has_path(graph, d, u)
    if path:
        assert path[0] == path[-1] == u
        assert path[1] == d
        assert all(graph.has_edge(a, b) for a, b in pairwise(path[1:]))
