"""The dependency graph of roles: pure rules, the same for every store.

Accepted edges, declared and pinned together, never form a cycle. To add an edge, a store asks `plan_registration` or
`plan_pins` for an update and writes it on the condition that the state it was computed from is still current. Removing
edges cannot close a cycle.

The newest version of a role that is alive determines the role's edges. An older instance keeps its edges that the
newest version declares too, so that edges do not flicker during a rollout or rollback.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter

from archon.api.common.v1.common_pb2 import PROPAGATION_POLICY_FINAL_RESPONSE_ONLY, Edge
from archon.api.registry.v1.registry_pb2 import Graph, RefusedEdge, Registration
from archon.errors import AlreadyExists, GraphCycle
from archon_services.common.tenants import role_key, role_of
from archon_services.registry.domain.registration_tokens import is_claim, may_renew, owns, refusal
from archon_services.registry.domain.roles import key_of
from archon_services.registry.domain.state import State, Update, Value, edge_key, host_key, instance_key, pin_key

Pair = tuple[str, str]


def cycle_path(pairs: Iterable[Pair], upstream: str, downstream: str) -> list[str]:
    """Returns the cycle that the edge upstream -> downstream would close among `pairs`, as [a, b, ..., a], or an empty
    list."""
    successors: dict[str, list[str]] = {}
    for source, target in pairs:
        successors.setdefault(source, []).append(target)
    predecessor: dict[str, str] = {downstream: upstream}
    queue = deque([downstream])
    while queue and upstream not in predecessor:
        role = queue.popleft()
        for target in successors.get(role, ()):
            if target not in predecessor:
                predecessor[target] = role
                queue.append(target)
    if upstream not in predecessor:
        return []
    path = [upstream]
    while len(path) == 1 or path[-1] != upstream:
        path.append(predecessor[path[-1]])
    return path[::-1]


def _arrows(path: Sequence[str]) -> str:
    return " -> ".join(map(role_of, path))


def plan_registration(
    state: State, registration: Registration, host: str = ""
) -> tuple[dict[str, Value | None], list[RefusedEdge]]:
    """Returns the update that registers an instance, empty if nothing changes, and its refused edges. `host` is the one
    that registers it.

    Raises AlreadyExists (CONFLICT) if the instance_id belongs to another role or another identity, PermissionDenied if
    another client has registered it.
    """
    current = state.instances.get(registration.instance_id)
    if current is not None and current.tenant != registration.tenant:
        raise AlreadyExists(
            f"the instance_id {registration.instance_id} is registered by another client",
            reason="CONFLICT",
            metadata={"instance_id": registration.instance_id},
        )
    if current is not None and _owner(current) != _owner(registration):
        raise AlreadyExists(
            f"the instance_id {registration.instance_id} is registered for the role {current.role} "
            f"by {current.identity}",
            reason="CONFLICT",
            metadata={"instance_id": registration.instance_id, "role": current.role},
        )
    if current is not None and not owns(current, registration.owner):
        is_renewal = may_renew(current, registration.owner) and same_content(current, registration)
        if not is_renewal:
            raise refusal(current)
    update: dict[str, Value | None] = {}
    if current is None or not same_content(current, registration) or is_claim(current, registration):
        owner = current.owner if current is not None and current.owner else registration.owner
        instance_id = registration.instance_id
        update[instance_key(instance_id)] = _content(registration, owner)
        if known_host := host or state.hosts.get(instance_id, ""):
            update[host_key(instance_id)] = known_host
    upstreams = state.with_update(update).roles[key_of(registration)].upstreams
    update |= _obsolete_edges(state, registration, upstreams)
    added, refused = _added_edges(state.with_update(update), registration, upstreams)
    return update | added, refused


def _obsolete_edges(state: State, registration: Registration, upstreams: frozenset[str]) -> dict[str, None]:
    """Returns deletions: the role's edges that its newest version does not declare, and this instance's own that it no
    longer declares."""
    role = key_of(registration)
    own = {role_key(registration.tenant, dependency.role) for dependency in registration.depends_on}
    deletions: dict[str, None] = {}
    for key, edge in state.edges.items():
        if edge.downstream == role and edge.upstream not in upstreams:
            deletions[edge_key(edge.upstream, role, "")] = None
        elif edge.downstream == role and registration.instance_id in edge.declared_by and edge.upstream not in own:
            deletions[key] = None
    return deletions


def _added_edges(
    state: State, registration: Registration, upstreams: frozenset[str]
) -> tuple[dict[str, Edge], list[RefusedEdge]]:
    role, instance_id = key_of(registration), registration.instance_id
    pairs = set(state.pairs())
    added: dict[str, Edge] = {}
    refused = []
    for dependency in registration.depends_on:
        upstream = role_key(registration.tenant, dependency.role)
        if upstream not in upstreams:
            continue
        key = edge_key(upstream, role, instance_id)
        edge = Edge(upstream=upstream, downstream=role, policy=dependency.policy, declared_by=[instance_id])
        if state.edges.get(key) == edge:
            continue
        if path := cycle_path(pairs, upstream, role):
            refused.append(RefusedEdge(edge=edge, cycle=_arrows(path)))
        else:
            added[key] = edge
            pairs.add((upstream, role))
    return added, refused


def _owner(registration: Registration) -> tuple[str, str, str]:
    return registration.role, registration.tenant, registration.identity


def same_content(left: Registration, right: Registration) -> bool:
    """Whether two registrations are equal in everything but their revision and owner."""
    return _content(left, owner="") == _content(right, owner="")


def _content(registration: Registration, owner: str | None = None) -> Registration:
    """Returns a copy without the revision, and with another owner if one is given."""
    copy = Registration()
    copy.CopyFrom(registration)
    copy.revision = 0
    if owner is not None:
        copy.owner = owner
    return copy


def plan_pins(state: State, edges: Iterable[Edge]) -> Update:
    """Returns the update that pins all of `edges`. Raises GraphCycle, which names the path, if an edge closes a
    cycle."""
    pairs = set(state.pairs())
    update: dict[str, Edge] = {}
    for edge in edges:
        if path := cycle_path(pairs, edge.upstream, edge.downstream):
            raise GraphCycle(
                f"{_arrows((edge.upstream, edge.downstream))} would close a cycle: {_arrows(path)}",
                metadata={"cycle": _arrows(path), "edge": _arrows((edge.upstream, edge.downstream))},
            )
        pairs.add((edge.upstream, edge.downstream))
        key = pin_key(edge.upstream, edge.downstream)
        pinned = Edge(upstream=edge.upstream, downstream=edge.downstream, policy=edge.policy, pinned=True)
        if state.pins.get(key) != pinned:
            update[key] = pinned
    return update


def plan_unpins(state: State, edges: Iterable[Edge]) -> Update:
    """Returns the update that removes the pins of `edges`."""
    keys = [pin_key(edge.upstream, edge.downstream) for edge in edges]
    return {key: None for key in keys if key in state.pins}


def build_graph(state: State) -> Graph:
    """Builds the graph. The widest policy among an edge's declarations applies, unless a pin sets the policy."""
    edges: dict[Pair, Edge] = {}
    for declared in state.edges.values():
        pair = declared.upstream, declared.downstream
        edge = edges.get(pair) or edges.setdefault(pair, Edge(upstream=pair[0], downstream=pair[1]))
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
    except CycleError:  # a record was written with etcdctl, say: leave out the edges that close a cycle
        edges, refused = _without_cycles(edges)
        order = _order(state, edges)
    rank = {role: index for index, role in enumerate(order)}
    return Graph(
        roles=order,
        edges=sorted(edges.values(), key=lambda edge: (rank[edge.upstream], rank[edge.downstream])),
        revision=state.revision,
        refused=[*refused, *_refused(state, set(edges))],
    )


def _order(state: State, edges: Iterable[Pair]) -> list[str]:
    """Returns all roles in topological order, upstream first, by name among equals."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for role in state.roles:
        sorter.add(role)
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
    """Returns the declared edges that are not accepted. `cycle` is empty if no cycle prevents the edge any more: it is
    accepted with the instance's next renewal."""
    cycles: dict[Pair, str] = {}
    refused = []
    for instance_id, registration in sorted(state.instances.items()):
        role = key_of(registration)
        for dependency in registration.depends_on:
            upstream = role_key(registration.tenant, dependency.role)
            if upstream not in state.roles[role].upstreams or edge_key(upstream, role, instance_id) in state.edges:
                continue
            if (upstream, role) not in cycles:
                cycles[upstream, role] = _arrows(cycle_path(pairs, upstream, role))
            edge = Edge(upstream=upstream, downstream=role, policy=dependency.policy, declared_by=[instance_id])
            refused.append(RefusedEdge(edge=edge, cycle=cycles[upstream, role]))
    return refused


def keeps_graph(update: Update, old: State, new: State) -> bool:
    """Whether an update between two states leaves the graph as it is, apart from its revision: it changes only
    instances without dependencies, or whose role, version and dependencies stay, and neither the roles nor their
    dependencies."""
    for key in update:
        if key.startswith("hosts/"):
            continue
        if not key.startswith("instances/"):
            return False
        instance_id = key.removeprefix("instances/")
        if _declares_the_same(old.instances.get(instance_id), new.instances.get(instance_id)):
            continue
        for state in (old, new):
            instance = state.instances.get(instance_id)
            if instance is None:
                continue
            roles = old.roles.get(key_of(instance)), new.roles.get(key_of(instance))
            if instance.depends_on or roles[0] is None or roles[1] is None or roles[0].upstreams != roles[1].upstreams:
                return False
    return True


def _declares_the_same(old: Registration | None, new: Registration | None) -> bool:
    if old is None or new is None or (old.role, old.version) != (new.role, new.version):
        return False
    return list(old.depends_on) == list(new.depends_on)


def instances_to_plan(state: State, graph: Graph) -> frozenset[str]:
    """Returns the instances whose renewal changes edges, because edges became acceptable or obsolete when other records
    changed. `plan_registration` has nothing to write for any other instance that renews unchanged."""
    acceptable = {name for refused in graph.refused if not refused.cycle for name in refused.edge.declared_by}
    obsolete = {
        edge.downstream
        for edge in graph.edges
        if edge.declared_by and edge.downstream in state.roles
        if edge.upstream not in state.roles[edge.downstream].upstreams
    }
    if obsolete:
        acceptable.update(name for name, instance in state.instances.items() if key_of(instance) in obsolete)
    return frozenset(acceptable)
