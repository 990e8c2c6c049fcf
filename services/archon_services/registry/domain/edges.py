"""The graph of roles: pure, the same for every store.

Accepted edges, declared and pinned together, never form a cycle: whoever adds one asks `register` or `pin` what to
write, under the condition that the state it was computed from still stands. Taking edges away can't close a cycle.

The newest version of a role that lives decides which edges the role has. An older instance keeps those of its edges
that the newest declares too, so that nothing flickers while versions are rolled out or back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter

from archon.api.common.v1.common_pb2 import PROPAGATION_POLICY_FINAL_RESPONSE_ONLY, Edge
from archon.api.registry.v1.registry_pb2 import Graph, RefusedEdge, Registration
from archon.errors import AlreadyExists, GraphCycle
from archon_services.common.versions import version_key
from archon_services.registry.domain.state import State, Update, edge_key, instance_key, pin_key

Pair = tuple[str, str]


def cycle_path(pairs: Iterable[Pair], upstream: str, downstream: str) -> list[str]:
    """The cycle that the edge upstream -> downstream would close among `pairs`, as [a, b, ..., a]; empty: none."""
    following: dict[str, list[str]] = {}
    for source, target in pairs:
        following.setdefault(source, []).append(target)
    came_from: dict[str, str] = {downstream: upstream}
    waiting = deque([downstream])
    while waiting and upstream not in came_from:
        here = waiting.popleft()
        for target in following.get(here, ()):
            if target not in came_from:
                came_from[target] = here
                waiting.append(target)
    if upstream not in came_from:
        return []
    path = [upstream]
    while len(path) == 1 or path[-1] != upstream:
        path.append(came_from[path[-1]])
    return path[::-1]


def _arrows(path: Sequence[str]) -> str:
    return " -> ".join(path)


def _upstreams(state: State) -> dict[str, set[str]]:
    """Role to the upstream roles that its newest living version declares."""
    newest: dict[str, tuple[int, ...]] = {}
    upstreams: dict[str, set[str]] = {}
    for registration in state.instances.values():
        role, version = registration.role, version_key(registration.version)
        if role not in newest or version > newest[role]:
            newest[role], upstreams[role] = version, set()
        if version == newest[role]:
            upstreams[role].update(depends.role for depends in registration.depends_on)
    return upstreams


def register(state: State, wanted: Registration) -> tuple[dict[str, Registration | Edge | None], list[RefusedEdge]]:
    """What to write so that `wanted` stands, and which of its edges are refused. An empty update: all stands already.

    Raises AlreadyExists (CONFLICT) where the instance_id belongs to another role or to somebody else.
    """
    held = state.instances.get(wanted.instance_id)
    if held is not None and _owner(held) != _owner(wanted):
        raise AlreadyExists(
            f"the instance_id {wanted.instance_id} is registered for the role {held.role} by {held.identity}",
            reason="CONFLICT",
            metadata={"instance_id": wanted.instance_id, "role": held.role},
        )
    update: dict[str, Registration | Edge | None] = {}
    if held is None or not same(held, wanted):
        update[instance_key(wanted.instance_id)] = _content(wanted)
    state = state.changed(update)
    role, instance_id = wanted.role, wanted.instance_id
    upstreams = _upstreams(state)[role]
    own = {depends.role for depends in wanted.depends_on}
    for key, edge in state.edges.items():
        if edge.downstream == role and edge.upstream not in upstreams:
            update[edge_key(edge.upstream, role, "")] = None
        elif edge.downstream == role and instance_id in edge.declared_by and edge.upstream not in own:
            update[key] = None
    state = state.changed(update)
    pairs = set(state.pairs())
    refused = []
    for depends in wanted.depends_on:
        if depends.role not in upstreams:
            continue
        key = edge_key(depends.role, role, instance_id)
        edge = Edge(upstream=depends.role, downstream=role, policy=depends.policy, declared_by=[instance_id])
        if state.edges.get(key) == edge:
            continue
        if path := cycle_path(pairs, depends.role, role):
            refused.append(RefusedEdge(edge=edge, cycle=_arrows(path)))
        else:
            update[key] = edge
            pairs.add((depends.role, role))
    return update, refused


def _owner(registration: Registration) -> tuple[str, str, str]:
    return registration.role, registration.tenant, registration.identity


def same(one: Registration, other: Registration) -> bool:
    """Whether both say the same, whenever they were written."""
    return _content(one) == _content(other)


def _content(registration: Registration) -> Registration:
    """Without the revision, which says when it was written."""
    copy = Registration()
    copy.CopyFrom(registration)
    copy.revision = 0
    return copy


def pin(state: State, edges: Iterable[Edge]) -> Update:
    """What to write so that all of `edges` are pinned. Raises GraphCycle, which names the path, where one can't be."""
    pairs = set(state.pairs())
    update: dict[str, Edge] = {}
    for edge in edges:
        if path := cycle_path(pairs, edge.upstream, edge.downstream):
            raise GraphCycle(
                f"{edge.upstream} -> {edge.downstream} would close a cycle: {_arrows(path)}",
                metadata={"cycle": _arrows(path), "edge": f"{edge.upstream} -> {edge.downstream}"},
            )
        pairs.add((edge.upstream, edge.downstream))
        key = pin_key(edge.upstream, edge.downstream)
        pinned = Edge(upstream=edge.upstream, downstream=edge.downstream, policy=edge.policy, pinned=True)
        if state.pins.get(key) != pinned:
            update[key] = pinned
    return update


def unpin(state: State, edges: Iterable[Edge]) -> Update:
    """What to write so that none of `edges` is pinned."""
    keys = [pin_key(edge.upstream, edge.downstream) for edge in edges]
    return {key: None for key in keys if key in state.pins}


def graph(state: State) -> Graph:
    """The graph as it stands. Of a declared edge the widest policy counts; a pin's policy counts before it."""
    edges: dict[Pair, Edge] = {}
    for declared in state.edges.values():
        edge = edges.setdefault(
            (declared.upstream, declared.downstream), Edge(upstream=declared.upstream, downstream=declared.downstream)
        )
        edge.policy = max(edge.policy, declared.policy, PROPAGATION_POLICY_FINAL_RESPONSE_ONLY)
        edge.declared_by.extend(declared.declared_by)
    for pinned in state.pins.values():
        edge = edges.setdefault((pinned.upstream, pinned.downstream), Edge())
        edge.MergeFrom(pinned)
        edge.pinned = True
    for edge in edges.values():
        edge.declared_by[:] = sorted(edge.declared_by)
    refused: list[RefusedEdge] = []
    try:
        order = _order(state, edges)
    except CycleError:  # written past the registry, say with etcdctl: what closes a cycle is left out here too
        edges, refused = _without_cycles(edges)
        order = _order(state, edges)
    place = {role: index for index, role in enumerate(order)}
    return Graph(
        roles=order,
        edges=sorted(edges.values(), key=lambda edge: (place[edge.upstream], place[edge.downstream])),
        revision=state.revision,
        refused=[*refused, *_refused(state, set(edges))],
    )


def _order(state: State, edges: Iterable[Pair]) -> list[str]:
    """All roles, upstream first, by name where the edges leave it open."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for registration in state.instances.values():
        sorter.add(registration.role)
    for upstream, downstream in edges:
        sorter.add(downstream, upstream)
    sorter.prepare()
    order: list[str] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        order += ready
        sorter.done(*ready)
    return order


def _without_cycles(edges: dict[Pair, Edge]) -> tuple[dict[Pair, Edge], list[RefusedEdge]]:
    kept: dict[Pair, Edge] = {}
    refused = []
    for pair, edge in sorted(edges.items(), key=lambda item: (not item[1].pinned, item[0])):
        if path := cycle_path(kept, *pair):
            refused.append(RefusedEdge(edge=edge, cycle=_arrows(path)))
        else:
            kept[pair] = edge
    return kept, refused


def _refused(state: State, pairs: set[Pair]) -> list[RefusedEdge]:
    """What instances declare and isn't there. Where no cycle is in the way any more, `cycle` is empty: the edge comes
    with the instance's next renewal."""
    upstreams = _upstreams(state)
    return [
        RefusedEdge(
            edge=Edge(
                upstream=depends.role, downstream=registration.role, policy=depends.policy, declared_by=[instance_id]
            ),
            cycle=_arrows(cycle_path(pairs, depends.role, registration.role)),
        )
        for instance_id, registration in sorted(state.instances.items())
        for depends in registration.depends_on
        if depends.role in upstreams[registration.role]
        and edge_key(depends.role, registration.role, instance_id) not in state.edges
    ]
