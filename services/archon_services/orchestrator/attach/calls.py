"""Relays calls to attached agents: to those that are attached here, else through the replica that holds them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Final, cast

from google.protobuf.message import DecodeError

from archon import context as call_context
from archon import status
from archon.api.agent.v1 import attach_service_pb2 as pb
from archon.api.common.v1 import common_pb2
from archon.channel import MAX_RELAYED_BYTES
from archon.context import CallContext
from archon.errors import (
    InstanceNotAttached,
    InvalidArgument,
    MalformedMessage,
    MessageTooLarge,
    Unimplemented,
    UnknownFailure,
)
from archon.principal import DEFAULT_TENANT, Kind, Principal
from archon.registry import Registration
from archon.security.credentials import INSTANCE_KEY
from archon.wire import duration
from archon_services.orchestrator.attach import call_load
from archon_services.orchestrator.attach.call_load import CallLoad
from archon_services.orchestrator.attach.instance import AttachedInstance
from archon_services.orchestrator.attach.relay import AttachRelay
from archon_services.orchestrator.attach.replicas import CALLER_KEY, ReplicaChannels

SPARE_SECONDS: Final = 10.0
"""Seconds that a call waits for a stream of its agent: one comes with each round trip."""

MAX_SECONDS: Final = 3_600.0
"""Seconds of a relayed call, if its caller has no earlier deadline."""

MAX_ID: Final = 128

Locate = Callable[[str, Principal | None], Registration | None]
"""Finds an instance of the mesh by its id, for a caller."""


class RelayedCalls:
    """Relays calls to the agents of `relay`. `locate` finds the instances that are attached to other replicas."""

    def __init__(self, relay: AttachRelay, locate: Locate) -> None:
        self._relay = relay
        self._locate = locate
        self._load = CallLoad()
        self._replicas = ReplicaChannels()

    async def close(self) -> None:
        """Closes the connections to other replicas."""
        await self._replicas.close()

    async def unary(self, method: str, request: bytes, context: Any) -> bytes:
        """Relays a call that has one response. Raises the errors of `stream`."""
        async with aclosing(self.stream(method, request, context)) as responses:
            received = [response async for response in responses]
        if len(received) != 1:
            raise UnknownFailure(f"the agent ended the call with {len(received)} responses")
        return received[0]

    async def stream(self, method: str, request: bytes, context: Any) -> AsyncGenerator[bytes, None]:
        """Relays a call, and yields its responses. Raises InvalidArgument and Unimplemented if it names no agent,
        MessageTooLarge, InstanceNotAttached, CallsNotRelayed, ResourceExhausted with a delay, and the errors of the
        agent."""
        metadata = tuple(context.invocation_metadata() or ())
        instance_id = _instance_id(metadata)
        caller = _caller(metadata, call_context.current())
        if len(request) > MAX_RELAYED_BYTES:
            raise MessageTooLarge(f"the request has {len(request):,} bytes; a relay takes {MAX_RELAYED_BYTES:,}")
        limits = call_load.MAX_CALLS_OF_ALL, call_load.MAX_BYTES_OF_ALL
        with self._load.holding(len(request), *limits, "all agents"):
            instance = self._relay.find(instance_id)
            if instance is not None and _may_call(caller, instance.tenant):
                responses = self._to_agent(instance, instance_id, method, request, caller)
            else:
                responses = self._to_replica(instance_id, method, request, caller, metadata)
            async with aclosing(responses):
                async for response in responses:
                    yield response

    async def _to_agent(
        self, instance: AttachedInstance, instance_id: str, method: str, request: bytes, caller: pb.Caller | None
    ) -> AsyncGenerator[bytes, None]:
        limits = call_load.MAX_CALLS, call_load.MAX_BYTES
        with instance.load.holding(len(request), *limits, instance_id):
            stream = await instance.spare_for_call(call_context.timeout(SPARE_SECONDS))
            if stream is None:
                raise not_attached(instance_id, "has no stream for a call")
            call = pb.RelayedCall(method=method, request=request, remaining=duration(call_context.timeout(MAX_SECONDS)))
            if caller is not None:
                call.caller.CopyFrom(caller)
            if traceparent := call_context.trace()[0]:
                call.trace.CopyFrom(
                    common_pb2.TraceContext(traceparent=traceparent, tracestate=call_context.trace()[1])
                )
            messages = cast(
                AsyncGenerator[bytes, None], stream.exchange(pb.AttachResponse(call=call).SerializeToString())
            )
            async with aclosing(messages):
                async for message in messages:
                    answer = _answer(message)
                    match answer.WhichOneof("event"):
                        case "response":
                            yield answer.response
                        case "failure":
                            raise status.from_failure(answer.failure)
                        case "completed":
                            return
                        case _:
                            raise MalformedMessage("the agent has sent no answer to the call")
            raise InstanceNotAttached(
                f"the connection of {instance_id} broke during the call: it may have acted",
                metadata={"instance_id": instance_id},
            )

    async def _to_replica(
        self, instance_id: str, method: str, request: bytes, caller: pb.Caller | None, metadata: tuple[Any, ...]
    ) -> AsyncGenerator[bytes, None]:
        """Relays a call through the replica that holds the agent, unless it comes from a replica already."""
        principal = _principal(caller)
        found = self._locate(instance_id, principal)
        if (
            any(key == CALLER_KEY for key, _ in metadata)
            or found is None
            or not _may_call(caller, found.tenant or DEFAULT_TENANT)
            or found.via_orchestrator in ("", self._relay.address)
        ):
            raise not_attached(instance_id, "is not attached here")
        responses = self._replicas.call(found.via_orchestrator, instance_id, method, request, caller)
        async with aclosing(responses):
            async for response in responses:
                yield response


def not_attached(instance_id: str, why: str) -> InstanceNotAttached:
    """Returns the error of a call whose agent has certainly not received it."""
    return InstanceNotAttached(
        f"{instance_id} {why}: an agent whose connection broke attaches again within seconds, and `archon agents` "
        "shows where",
        metadata={"instance_id": instance_id, "begun": "false"},
        retry_delay=1.0,
    )


def _instance_id(metadata: tuple[Any, ...]) -> str:
    """Returns the instance that a call is for. Raises Unimplemented without one, InvalidArgument for a wrong one."""
    instance_id = next((value for key, value in metadata if key == INSTANCE_KEY), "")
    if not instance_id:
        raise Unimplemented(
            "this is an orchestrator and no agent: call the agent at the address that `archon agents` shows, or name "
            f"an attached agent in the metadata {INSTANCE_KEY}"
        )
    if not isinstance(instance_id, str) or len(instance_id) > MAX_ID:
        raise InvalidArgument(f"the metadata {INSTANCE_KEY} has at most {MAX_ID} characters")
    return instance_id


def _caller(metadata: tuple[Any, ...], call: CallContext) -> pb.Caller | None:
    """Returns the caller: as another replica says, else by its credentials; None in a mesh without. Raises
    InvalidArgument."""
    principal = call.principal
    if principal is None:
        return None
    relayed = next((value for key, value in metadata if key == CALLER_KEY), None)
    if relayed is not None and principal.is_of_all_tenants:
        try:
            caller = pb.Caller.FromString(relayed if isinstance(relayed, bytes) else relayed.encode())
            Kind(caller.kind)
        except (DecodeError, ValueError):
            raise InvalidArgument(f"the metadata {CALLER_KEY} has no caller") from None
        return caller
    return pb.Caller(
        kind=principal.kind.value,
        name=principal.name,
        tenant=principal.tenant,
        roles=sorted(principal.roles),
        identity=call.identity,
        identity_tenant=call.tenant,
    )


def _principal(caller: pb.Caller | None) -> Principal | None:
    return None if caller is None else Principal(Kind(caller.kind), caller.name, caller.tenant)


def _may_call(caller: pb.Caller | None, tenant: str) -> bool:
    """Whether a caller may call agents of a tenant, as a dialled agent decides it."""
    principal = _principal(caller)
    return principal is None or principal.is_of_all_tenants or principal.tenant == tenant


def _answer(message: bytes) -> pb.CallAnswer:
    try:
        return pb.AttachRequest.FromString(message).answer
    except DecodeError:
        raise MalformedMessage("the agent's answer to the call is not an AttachRequest") from None
