"""Conversion of registrations, edges and graphs to and from protobuf."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from archon.api.common.v1 import capability_pb2, common_pb2
from archon.api.registry.v1 import registry_pb2, registry_service_pb2
from archon.errors import InvalidArgument
from archon.registry.graph import Graph, RefusedEdge, RegistryChange
from archon.registry.registration import Capability, DependsOn, Profile, Registration, Tool, ToolShare
from archon.types.edge import Edge
from archon.wire import duration, policy_from_proto, policy_to_proto, to_seconds


def registration_to_proto(registration: Registration) -> registry_pb2.Registration:
    """The message, without the fields that the registry sets. Raises InvalidArgument if a value cannot be encoded."""
    try:
        message = registry_pb2.Registration(
            instance_id=registration.instance_id,
            role=registration.role,
            version=registration.version,
            address=registration.address,
            via_orchestrator=registration.via_orchestrator,
            description=registration.description,
            capabilities=[_capability_to_proto(c) for c in registration.capabilities],
            tools=[tool_to_proto(t) for t in registration.tools],
            depends_on=[_depends_on_to_proto(d) for d in registration.depends_on],
            tags=registration.tags,
            max_tasks=registration.max_tasks,
            all_ancestors=registration.all_ancestors,
            coordinator=registration.coordinator,
            stateful=registration.stateful,
            planner=registration.planner,
            output_schema_json=registration.output_schema_json,
            ttl=duration(registration.ttl),
        )
        if registration.profile is not None:
            message.profile.CopyFrom(
                capability_pb2.Profile(
                    instructions=registration.profile.instructions,
                    expected_latency_ms=registration.profile.expected_latency_ms,
                    expected_cost_micro_usd=registration.profile.expected_cost_micro_usd,
                    expected_quality=registration.profile.expected_quality,
                    message_types=registration.profile.message_types,
                    prompt_template=registration.profile.prompt_template,
                )
            )
    except (TypeError, UnicodeEncodeError, AttributeError) as error:
        raise InvalidArgument(f"the registration of {registration.instance_id} cannot be encoded: {error}") from None
    return message


def registration_from_proto(message: registry_pb2.Registration) -> Registration:
    profile = message.profile
    return Registration(
        role=message.role,
        version=message.version,
        address=message.address,
        description=message.description,
        capabilities=tuple(_capability_from_proto(c) for c in message.capabilities),
        tools=tuple(tool_from_proto(t) for t in message.tools),
        depends_on=tuple(DependsOn(d.role, policy_from_proto(d.policy)) for d in message.depends_on),
        tags=dict(message.tags),
        max_tasks=message.max_tasks,
        all_ancestors=message.all_ancestors,
        coordinator=message.coordinator,
        stateful=message.stateful,
        planner=message.planner,
        output_schema_json=message.output_schema_json,
        ttl=to_seconds(message.ttl),
        instance_id=message.instance_id,
        profile=Profile(
            profile.instructions,
            profile.expected_latency_ms,
            profile.expected_cost_micro_usd,
            profile.expected_quality,
            dict(profile.message_types),
            profile.prompt_template,
        )
        if message.HasField("profile")
        else None,
        tenant=message.tenant,
        identity=message.identity,
        revision=message.revision,
        via_orchestrator=message.via_orchestrator,
    )


def _depends_on_to_proto(dependency: DependsOn) -> registry_pb2.DependsOn:
    return registry_pb2.DependsOn(role=dependency.role, policy=policy_to_proto(dependency.policy))


def _capability_to_proto(capability: Capability) -> capability_pb2.Capability:
    return capability_pb2.Capability(
        id=capability.id,
        name=capability.name,
        description=capability.description,
        tags=capability.tags,
        examples=capability.examples,
        input_modes=capability.input_modes,
        output_modes=capability.output_modes,
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


def tool_to_proto(tool: Tool) -> capability_pb2.Tool:
    """The message of a tool. Raises TypeError if a value cannot be encoded."""
    message = capability_pb2.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema_json=tool.input_schema_json,
        output_schema_json=tool.output_schema_json,
        hints=capability_pb2.ToolHints(
            read_only=tool.read_only,
            destructive=tool.destructive,
            idempotent=tool.idempotent,
            open_world=tool.open_world,
        ),
    )
    if (share := tool.share) is not None:
        message.share.CopyFrom(
            capability_pb2.ToolShare(
                max_calls_per_minute=share.max_calls_per_minute,
                calls=share.calls,
                success_rate=share.success_rate,
                mean_latency=duration(share.mean_latency),
            )
        )
    return message


def tool_from_proto(message: capability_pb2.Tool) -> Tool:
    """The tool that a message has."""
    hints, share = message.hints, message.share
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
        share=ToolShare(share.max_calls_per_minute, share.calls, share.success_rate, to_seconds(share.mean_latency))
        if message.HasField("share")
        else None,
    )


def edges_to_proto(edges: Iterable[Edge | tuple[str, str]]) -> list[common_pb2.Edge]:
    """Edges, or pairs (upstream, downstream). Raises InvalidArgument for an unknown policy."""
    values = [edge if isinstance(edge, Edge) else Edge(*edge) for edge in edges]
    return [
        common_pb2.Edge(upstream=edge.upstream, downstream=edge.downstream, policy=policy_to_proto(edge.policy))
        for edge in values
    ]


def refused_from_proto(messages: Iterable[registry_pb2.RefusedEdge]) -> tuple[RefusedEdge, ...]:
    return tuple(RefusedEdge(Edge.from_proto(message.edge), message.cycle) for message in messages)


def graph_from_proto(message: registry_pb2.Graph) -> Graph:
    return Graph(
        roles=tuple(message.roles),
        edges=tuple(Edge.from_proto(edge) for edge in message.edges),
        revision=message.revision,
        refused=refused_from_proto(message.refused),
    )


def change_from_proto(parts: Sequence[registry_service_pb2.WatchResponse]) -> RegistryChange:
    """One change from its messages, at least one. Only the last has the revision and the graph."""
    last = parts[-1]
    return RegistryChange(
        revision=last.revision,
        snapshot=parts[0].snapshot,
        instances=tuple(registration_from_proto(instance) for message in parts for instance in message.instances),
        removed=tuple(last.removed_instance_ids),
        graph=graph_from_proto(last.graph) if last.HasField("graph") else None,
        graphs={graph.tenant: graph_from_proto(graph) for graph in last.graphs} if last.graphs else None,
    )
