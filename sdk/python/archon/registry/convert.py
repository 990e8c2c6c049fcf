"""Between the plain values and the contract's messages."""

from __future__ import annotations

from collections.abc import Iterable

from archon.api.common.v1 import capability_pb2, common_pb2
from archon.api.registry.v1 import registry_pb2, registry_service_pb2
from archon.errors import InvalidArgument
from archon.registry.graph import Edge, Graph, RefusedEdge, RegistryChange
from archon.registry.registration import Capability, DependsOn, Profile, Registration, Tool
from archon.wire import duration, policy_from_proto, policy_to_proto, to_seconds


def registration_to_proto(one: Registration) -> registry_pb2.Registration:
    """Without what is the registry's to say. Raises InvalidArgument where a value can't be carried at all."""
    try:
        message = registry_pb2.Registration(
            instance_id=one.instance_id,
            role=one.role,
            version=one.version,
            address=one.address,
            description=one.description,
            capabilities=[_capability_to_proto(c) for c in one.capabilities],
            tools=[_tool_to_proto(t) for t in one.tools],
            depends_on=[registry_pb2.DependsOn(role=d.role, policy=policy_to_proto(d.policy)) for d in one.depends_on],
            tags=one.tags,
            max_tasks=one.max_tasks,
            all_ancestors=one.all_ancestors,
            coordinator=one.coordinator,
            stateful=one.stateful,
            ttl=duration(one.ttl),
        )
        if one.profile is not None:
            message.profile.CopyFrom(
                capability_pb2.Profile(
                    instructions=one.profile.instructions,
                    expected_latency_ms=one.profile.expected_latency_ms,
                    expected_cost_micro_usd=one.profile.expected_cost_micro_usd,
                    expected_quality=one.profile.expected_quality,
                    message_types=one.profile.message_types,
                )
            )
    except (TypeError, UnicodeEncodeError, AttributeError) as error:
        raise InvalidArgument(f"the registration of {one.instance_id} can't be sent: {error}") from None
    return message


def registration_from_proto(message: registry_pb2.Registration) -> Registration:
    """All of it."""
    profile = message.profile
    return Registration(
        role=message.role,
        version=message.version,
        address=message.address,
        description=message.description,
        capabilities=tuple(_capability_from_proto(c) for c in message.capabilities),
        tools=tuple(_tool_from_proto(t) for t in message.tools),
        depends_on=tuple(DependsOn(d.role, policy_from_proto(d.policy)) for d in message.depends_on),
        tags=dict(message.tags),
        max_tasks=message.max_tasks,
        all_ancestors=message.all_ancestors,
        coordinator=message.coordinator,
        stateful=message.stateful,
        ttl=to_seconds(message.ttl),
        instance_id=message.instance_id,
        profile=Profile(
            profile.instructions,
            profile.expected_latency_ms,
            profile.expected_cost_micro_usd,
            profile.expected_quality,
            dict(profile.message_types),
        )
        if message.HasField("profile")
        else None,
        tenant=message.tenant,
        identity=message.identity,
        revision=message.revision,
        via_orchestrator=message.via_orchestrator,
    )


def _capability_to_proto(one: Capability) -> capability_pb2.Capability:
    return capability_pb2.Capability(
        id=one.id,
        name=one.name,
        description=one.description,
        tags=one.tags,
        examples=one.examples,
        input_modes=one.input_modes,
        output_modes=one.output_modes,
    )


def _capability_from_proto(message: capability_pb2.Capability) -> Capability:
    return Capability(
        message.id,
        message.name,
        message.description,
        tuple(message.tags),
        tuple(message.examples),
        tuple(message.input_modes),
        tuple(message.output_modes),
    )


def _tool_to_proto(one: Tool) -> capability_pb2.Tool:
    return capability_pb2.Tool(
        name=one.name,
        title=one.title,
        description=one.description,
        input_schema_json=one.input_schema_json,
        output_schema_json=one.output_schema_json,
        hints=capability_pb2.ToolHints(
            read_only=one.read_only,
            destructive=one.destructive,
            idempotent=one.idempotent,
            open_world=one.open_world,
        ),
    )


def _tool_from_proto(message: capability_pb2.Tool) -> Tool:
    hints = message.hints
    return Tool(
        name=message.name,
        description=message.description,
        input_schema_json=message.input_schema_json,
        output_schema_json=message.output_schema_json,
        title=message.title,
        read_only=hints.read_only,
        destructive=hints.destructive,
        idempotent=hints.idempotent,
        open_world=hints.open_world,
    )


def edges_to_proto(edges: Iterable[Edge | tuple[str, str]]) -> list[common_pb2.Edge]:
    """Takes (upstream, downstream) for an edge too. Raises InvalidArgument."""
    found = [edge if isinstance(edge, Edge) else Edge(*edge) for edge in edges]
    return [
        common_pb2.Edge(upstream=edge.upstream, downstream=edge.downstream, policy=policy_to_proto(edge.policy))
        for edge in found
    ]


def edge_from_proto(message: common_pb2.Edge) -> Edge:
    """All of it."""
    return Edge(
        message.upstream,
        message.downstream,
        policy_from_proto(message.policy),
        message.pinned,
        tuple(message.declared_by),
    )


def refused_from_proto(messages: Iterable[registry_pb2.RefusedEdge]) -> tuple[RefusedEdge, ...]:
    """All of them."""
    return tuple(RefusedEdge(edge_from_proto(message.edge), message.cycle) for message in messages)


def graph_from_proto(message: registry_pb2.Graph) -> Graph:
    """All of it."""
    return Graph(
        roles=tuple(message.roles),
        edges=tuple(edge_from_proto(edge) for edge in message.edges),
        revision=message.revision,
        refused=refused_from_proto(message.refused),
    )


def change_from_proto(message: registry_service_pb2.WatchResponse) -> RegistryChange:
    """All of it."""
    return RegistryChange(
        revision=message.revision,
        snapshot=message.snapshot,
        instances=tuple(registration_from_proto(one) for one in message.instances),
        removed=tuple(message.removed_instance_ids),
        graph=graph_from_proto(message.graph) if message.HasField("graph") else None,
    )
