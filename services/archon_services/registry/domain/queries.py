"""Queries of one tenant over a state: which instances can take a task, pages of instances, the graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from archon.api.common.v1.common_pb2 import Edge
from archon.api.registry.v1.registry_pb2 import Graph, RefusedEdge, Registration
from archon.errors import UnknownCapability, UnknownRole
from archon.principal import DEFAULT_TENANT
from archon_services.common.paging import make_token, read_token
from archon_services.common.tenants import role_of, tenant_of
from archon_services.common.versions import version_key, version_matches
from archon_services.registry.domain.state import State

PART_BYTES: Final = 2 * 1024 * 1024
"""Registrations in one message: with one more registration and the graph, well below the limit of a message."""


def in_parts(instances: Iterable[Registration]) -> Iterator[list[Registration]]:
    """Yields the instances in lists of about PART_BYTES at most; one empty list if there are none."""
    part: list[Registration] = []
    size = 0
    for instance in instances:
        if part and size + instance.ByteSize() > PART_BYTES:
            yield part
            part, size = [], 0
        part.append(instance)
        size += instance.ByteSize()
    yield part


def instances_of(state: State, tenant: str) -> Iterator[Registration]:
    """Yields the instances of a tenant."""
    return (instance for instance in state.instances.values() if is_of(instance, tenant))


def is_of(instance: Registration, tenant: str) -> bool:
    """Whether an instance belongs to a tenant."""
    return (instance.tenant or DEFAULT_TENANT) == tenant


def graph_of(graph: Graph, tenant: str) -> Graph:
    """Returns the roles, edges and refused edges of a tenant, by the names of its roles."""
    result = Graph(
        roles=[role_of(role) for role in graph.roles if tenant_of(role) == tenant],
        edges=[named_edge(edge) for edge in graph.edges if tenant_of(edge.downstream) == tenant],
        revision=graph.revision,
    )
    result.refused.extend(
        named_refusal(refused) for refused in graph.refused if tenant_of(refused.edge.downstream) == tenant
    )
    return result


def graphs_of(graph: Graph) -> list[Graph]:
    """Returns the graph of each tenant with a role, in order of their names; the default tenant's if there is none."""
    tenants = {tenant_of(role) for role in graph.roles} or {DEFAULT_TENANT}
    graphs = [graph_of(graph, tenant) for tenant in sorted(tenants)]
    for tenant, each in zip(sorted(tenants), graphs, strict=True):
        each.tenant = tenant
    return graphs


def named_edge(edge: Edge) -> Edge:
    """Returns an edge with the names of its roles in place of their keys."""
    result = Edge()
    result.CopyFrom(edge)
    result.upstream, result.downstream = role_of(edge.upstream), role_of(edge.downstream)
    return result


def named_refusal(refused: RefusedEdge) -> RefusedEdge:
    """Returns a refused edge with the names of its roles in place of their keys."""
    return RefusedEdge(edge=named_edge(refused.edge), cycle=refused.cycle)


def resolve(
    state: State,
    tenant: str,
    *,
    role: str = "",
    capability: str = "",
    version: str = "",
    tags: Mapping[str, str] | None = None,
) -> list[Registration]:
    """Returns the instances of a tenant that can take a task, ordered by role, newest version first, then instance_id.

    The result is empty if instances are alive but none matches `version` and `tags`. Raises UnknownRole or
    UnknownCapability if no instance of the role, or none that offers the capability, is alive.
    """
    if role:
        alive = [instance for instance in instances_of(state, tenant) if instance.role == role]
        if not alive:
            raise UnknownRole(f"no instance of the role {role} is alive", metadata={"role": role})
    else:
        alive = [
            instance
            for instance in instances_of(state, tenant)
            if any(offered.id == capability for offered in instance.capabilities)
        ]
        if not alive:
            raise UnknownCapability(
                f"no instance offers the capability {capability}", metadata={"capability": capability}
            )
    matching = [
        instance
        for instance in alive
        if version_matches(instance.version, version)
        and all(instance.tags.get(key) == value for key, value in (tags or {}).items())
    ]
    matching.sort(key=lambda instance: instance.instance_id)
    matching.sort(key=lambda instance: version_key(instance.version), reverse=True)
    matching.sort(key=lambda instance: instance.role)
    return matching


def list_page(state: State, tenant: str, *, role: str, size: int, token: str) -> tuple[list[Registration], str]:
    """Returns one page of a tenant's instances, ordered by role and instance_id, and the token of the next page,
    empty after the last. A page has `size` instances, or fewer if they would exceed PART_BYTES. Raises
    InvalidArgument (INVALID_PAGE_TOKEN)."""
    position = read_token(token, "instances", role, like=["", ""]) or ["", ""]
    after = (position[0], position[1])
    remaining = sorted(
        (
            instance
            for instance in instances_of(state, tenant)
            if role in ("", instance.role) and (instance.role, instance.instance_id) > after
        ),
        key=lambda instance: (instance.role, instance.instance_id),
    )
    page = next(in_parts(remaining[:size]))
    if len(remaining) <= len(page):
        return page, ""
    return page, make_token([page[-1].role, page[-1].instance_id], "instances", role)
