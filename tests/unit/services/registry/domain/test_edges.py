"""The dependency graph: it stays acyclic for any order of declarations and pins."""

from __future__ import annotations

from collections.abc import Iterator
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
from archon_services.registry.domain.edges import (
    build_graph,
    cycle_path,
    instances_to_plan,
    keeps_graph,
    plan_pins,
    plan_registration,
    plan_unpins,
)
from archon_services.registry.domain.roles import summarize_roles
from archon_services.registry.domain.state import State, edge_key, pin_key

ROLES = ["a", "b", "c", "d", "e"]


def declared(instance: str, role: str, *upstreams: str, version: str = "1", policy: int = 1) -> Registration:
    registration = Registration(instance_id=instance, role=role, version=version, address="host:1")
    for upstream in upstreams:
        registration.depends_on.append(DependsOn(role=upstream, policy=policy))  # type: ignore[arg-type]
    return registration


def after(state: State, registration: Registration) -> State:
    return state.with_update(plan_registration(state, registration)[0], state.revision + 1)


def removed(state: State, instance: str) -> State:
    update = {f"instances/{instance}": None, **{key: None for key in state.edges if key.endswith(f"/{instance}")}}
    return state.with_update(update, state.revision + 1)


def pairs(graph: Graph) -> set[tuple[str, str]]:
    return {(edge.upstream, edge.downstream) for edge in graph.edges}


def test_edge_to_a_role_without_instances_is_accepted() -> None:
    graph = build_graph(after(State(), declared("b1", "b", "a")))
    assert pairs(graph) == {("a", "b")}
    assert list(graph.roles) == ["a", "b"]
    assert list(graph.edges[0].declared_by) == ["b1"]


def test_edge_that_closes_a_cycle_is_refused_with_its_path() -> None:
    state = after(after(State(), declared("b1", "b", "a")), declared("c1", "c", "b"))
    update, refused = plan_registration(state, declared("a1", "a", "c", "x"))
    assert [edge.cycle for edge in refused] == ["c -> a -> b -> c"]
    graph = build_graph(state.with_update(update, 9))
    assert pairs(graph) == {("a", "b"), ("b", "c"), ("x", "a")}
    assert [(refusal.edge.upstream, refusal.cycle) for refusal in graph.refused] == [("c", "c -> a -> b -> c")]


def test_role_that_depends_on_itself_is_a_cycle() -> None:
    _, refused = plan_registration(State(), declared("a1", "a", "a"))
    assert [edge.cycle for edge in refused] == ["a -> a"]
    with pytest.raises(GraphCycle) as caught:
        plan_pins(State(), [Edge(upstream="a", downstream="a")])
    assert caught.value.metadata["cycle"] == "a -> a"


def test_registering_the_same_content_again_writes_nothing() -> None:
    registration = declared("b1", "b", "a")
    assert plan_registration(after(State(), registration), registration) == ({}, [])


def test_refused_edge_is_accepted_on_renewal_once_possible() -> None:
    state = after(after(State(), declared("b1", "b", "a")), declared("a1", "a", "b"))
    state = removed(state, "b1")
    assert [edge.cycle for edge in build_graph(state).refused] == [""]
    graph = build_graph(after(state, declared("a1", "a", "b")))
    assert pairs(graph) == {("b", "a")}
    assert not graph.refused


def test_newest_version_determines_the_edges_of_its_role() -> None:
    state = after(State(), declared("r1", "r", "old", "both", version="1.9"))
    state = after(state, declared("r2", "r", "both", "new", version="1.10"))
    assert pairs(build_graph(state)) == {("both", "r"), ("new", "r")}
    assert not build_graph(state).refused
    state = after(state, declared("r1", "r", "old", "both", version="1.9"))
    assert pairs(build_graph(state)) == {("both", "r"), ("new", "r")}, "a renewal of the older version changes nothing"


def test_after_a_rollback_the_older_versions_edges_return() -> None:
    state = after(State(), declared("r1", "r", "old", "both", version="1"))
    state = removed(after(state, declared("r2", "r", "both", version="2")), "r2")
    assert pairs(build_graph(state)) == {("both", "r")}, "an edge that both declare stays throughout"
    assert pairs(build_graph(after(state, declared("r1", "r", "old", "both", version="1")))) == {
        ("old", "r"),
        ("both", "r"),
    }


def test_edge_obsolete_after_a_rollback_goes_with_a_renewal() -> None:
    state = after(State(), declared("r1", "r", "a", version="1"))
    state = after(after(state, declared("r2", "r", version="2")), declared("r3", "r", "a", version="3"))
    state = after(state, declared("r1", "r", "a", version="1"))
    state = removed(state, "r3")
    assert pairs(build_graph(state)) == {("a", "r")}
    assert instances_to_plan(state, build_graph(state)) == {"r1", "r2"}
    state = after(state, declared("r2", "r", version="2"))
    assert pairs(build_graph(state)) == set()
    assert not instances_to_plan(state, build_graph(state))


def test_newer_version_may_reverse_an_edge() -> None:
    state = after(State(), declared("r1", "r", "a", version="1"))
    state = after(state, declared("r2", "r", version="2"))
    _, refused = plan_registration(state, declared("a2", "a", "r", version="2"))
    assert not refused


def test_instance_that_declares_less_removes_only_its_own_edges() -> None:
    state = after(after(State(), declared("r1", "r", "a", "b")), declared("r2", "r", "a"))
    state = after(state, declared("r1", "r", "b"))
    assert pairs(build_graph(state)) == {("a", "r"), ("b", "r")}
    assert list(build_graph(state).edges[0].declared_by) == ["r2"]


def test_instance_id_of_another_role_or_owner_is_a_conflict() -> None:
    state = after(State(), declared("x", "r"))
    with pytest.raises(AlreadyExists) as caught:
        plan_registration(state, declared("x", "other"))
    assert caught.value.reason == "CONFLICT"
    other_owner = declared("x", "r")
    other_owner.identity = "other"
    with pytest.raises(AlreadyExists):
        plan_registration(state, other_owner)


def test_widest_declared_policy_applies_unless_a_pin_sets_it() -> None:
    state = after(State(), declared("r1", "r", "a"))
    state = after(state, declared("r2", "r", "a", policy=PROPAGATION_POLICY_FULL_HISTORY))
    assert build_graph(state).edges[0].policy == PROPAGATION_POLICY_FULL_HISTORY
    pin = Edge(upstream="a", downstream="r", policy=PROPAGATION_POLICY_TOOL_RESULTS)
    edge = build_graph(state.with_update(plan_pins(state, [pin]), 9)).edges[0]
    assert (edge.policy, edge.pinned, list(edge.declared_by)) == (PROPAGATION_POLICY_TOOL_RESULTS, True, ["r1", "r2"])


def test_pins_are_written_all_or_none() -> None:
    state = after(State(), declared("b1", "b", "a"))
    with pytest.raises(GraphCycle) as caught:
        plan_pins(state, [Edge(upstream="x", downstream="y"), Edge(upstream="b", downstream="a")])
    assert caught.value.metadata["cycle"] == "b -> a -> b"


def test_cycle_written_directly_to_the_store_shows_as_refused() -> None:
    state = State(
        edges={edge_key("b", "a", "i"): Edge(upstream="b", downstream="a", declared_by=["i"])},
        pins={pin_key("a", "b"): Edge(upstream="a", downstream="b", pinned=True)},
    )
    graph = build_graph(state)
    assert pairs(graph) == {("a", "b")}
    assert [edge.cycle for edge in graph.refused] == ["b -> a -> b"]
    assert graph.edges[0].policy in (0, PROPAGATION_POLICY_FINAL_RESPONSE_ONLY)


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
        st.tuples(st.just("remove"), st.integers(0, 5)),
        st.tuples(st.just("pin"), st.lists(st.tuples(role, role), min_size=1, max_size=3)),
        st.tuples(st.just("unpin"), st.tuples(role, role)),
    ),
    max_size=25,
)


def states(history: list[tuple[object, ...]]) -> Iterator[State]:
    """Yields the state after each step that is not refused."""
    state = State()
    for step in history:
        match step:
            case ("register", int(number), str(name), list(upstreams), str(version)):
                try:
                    state = after(state, declared(f"i{number}", name, *upstreams, version=version))
                except AlreadyExists:
                    continue
            case ("remove", int(number)):
                state = removed(state, f"i{number}")
            case ("pin", list(wanted)):
                try:
                    update = plan_pins(state, [Edge(upstream=u, downstream=d) for u, d in wanted])
                except GraphCycle:
                    continue
                state = state.with_update(update, state.revision + 1)
            case ("unpin", (str(upstream), str(downstream))):
                update = plan_unpins(state, [Edge(upstream=upstream, downstream=downstream)])
                state = state.with_update(update, state.revision + 1)
        yield state


@given(steps)
def test_graph_is_acyclic_at_every_revision(history: list[tuple[object, ...]]) -> None:
    """The raw keys are acyclic too: other readers may build their own graph from them."""
    for state in states(history):
        raw: nx.DiGraph[str] = nx.DiGraph(list(state.pairs()))
        assert nx.is_directed_acyclic_graph(raw)
        graph = build_graph(state)
        assert pairs(graph) == set(raw.edges)
        rank = {name: index for index, name in enumerate(graph.roles)}
        assert all(rank[edge.upstream] < rank[edge.downstream] for edge in graph.edges)
        assert set(rank) >= {instance.role for instance in state.instances.values()}


@given(steps)
def test_only_renewals_of_instances_to_plan_have_updates(history: list[tuple[object, ...]]) -> None:
    for state in states(history):
        with_updates = {name for name, instance in state.instances.items() if plan_registration(state, instance)[0]}
        assert instances_to_plan(state, build_graph(state)) == with_updates


@given(steps)
def test_roles_kept_with_the_state_equal_those_computed(history: list[tuple[object, ...]]) -> None:
    for state in states(history):
        assert state.roles == summarize_roles(state.instances.values())


@given(steps)
def test_an_update_that_keeps_the_graph_does_not_change_it(history: list[tuple[object, ...]]) -> None:
    old = State()
    for new in states(history):
        update = {f"instances/{name}": None for name in {*old.instances, *new.instances}}
        before, after_update = build_graph(old), build_graph(new)
        after_update.revision = before.revision
        if old.edges == new.edges and old.pins == new.pins and keeps_graph(update, old, new):
            assert before == after_update
            assert instances_to_plan(old, before) == instances_to_plan(new, after_update)
        old = new


def test_an_instance_that_declares_the_same_keeps_the_graph() -> None:
    first = after(after(State(), declared("a1", "a")), declared("b1", "b", "a"))
    again = Registration()
    again.CopyFrom(declared("b1", "b", "a"))
    again.description = "another text"
    update, _ = plan_registration(first, again)
    assert set(update) == {"instances/b1"} and keeps_graph(update, first, first.with_update(update, 3))
    again.version = "2.0"
    update, _ = plan_registration(first, again)
    assert not keeps_graph(update, first, first.with_update(update, 3))


def test_an_instance_without_dependencies_of_a_known_role_keeps_the_graph() -> None:
    first = after(State(), declared("a1", "a"))
    update, _ = plan_registration(first, declared("a2", "a"))
    assert keeps_graph(update, first, first.with_update(update, 2))
    assert not keeps_graph(update, State(), State().with_update(update, 2)), "the role is new"


@given(st.lists(st.tuples(role, role), max_size=12), role, role)
def test_cycle_path_is_found_iff_the_edge_closes_a_cycle(existing: list[tuple[str, str]], u: str, d: str) -> None:
    path = cycle_path(existing, u, d)
    graph: nx.DiGraph[str] = nx.DiGraph(existing)
    graph.add_nodes_from([u, d])
    assert bool(path) == nx.has_path(graph, d, u)
    if path:
        assert path[0] == path[-1] == u
        assert path[1] == d
        assert all(graph.has_edge(a, b) for a, b in pairwise(path[1:]))
