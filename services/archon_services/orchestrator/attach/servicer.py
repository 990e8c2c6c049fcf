"""AttachService, for agents; and the services of agents, by which members of the mesh reach those attached here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from google.protobuf.message import DecodeError

from archon import context as call_context
from archon.api.agent.v1 import agent_service_pb2, agent_service_pb2_grpc, attach_service_pb2, attach_service_pb2_grpc
from archon.api.tool.v1 import tool_service_pb2_grpc
from archon.errors import DeadlineExceeded, FailedPrecondition, InvalidArgument, MalformedMessage
from archon.interceptors import raw_messages
from archon.registry import Registration
from archon.registry.convert import registration_from_proto
from archon.security.policy import check_role
from archon_services.orchestrator.attach.calls import RelayedCalls
from archon_services.orchestrator.attach.relay import AttachRelay
from archon_services.orchestrator.attach.stream import AttachStream

ATTACH_SERVICE: Final = "archon.api.agent.v1.AttachService"
AGENT_SERVICE: Final = "archon.api.agent.v1.AgentService"
TOOL_SERVICE: Final = "archon.api.tool.v1.ToolService"

TOKEN_KEY: Final = "archon-attach-token"
"""Metadata of Attach: a secret of the agent's process, by which every orchestrator recognizes it."""

FIRST_TIMEOUT: Final = 10.0
"""Seconds within which a stream has to send its first message."""

CANCEL_DELAY: Final = 0.05
"""Seconds: gRPC ends the requests of a call whose connection is lost a moment before it cancels the call."""

DEFAULT_TTL: Final = 10.0
"""Seconds of the lease of an agent that asks for none."""

MIN_TOKEN: Final = 16
MAX_TOKEN: Final = 128

CALLS: Final = "calls"
"""The feature of the first Ready of an agent that takes relayed calls."""


class AttachServicer(attach_service_pb2_grpc.AttachServiceServicer):
    """Takes in agents."""

    def __init__(self, relay: AttachRelay) -> None:
        self._relay = relay

    @raw_messages
    async def Attach(  # type: ignore[override]
        self, request_iterator: AsyncIterator[bytes], context: Any
    ) -> AsyncIterator[bytes]:
        """Registers the agent, then carries one session or one call."""
        wanted, takes_calls = await self._registration(request_iterator)
        instance = await self._relay.admit(wanted, _token(context))
        stream = AttachStream(request_iterator, takes_calls=takes_calls)
        instance.add(stream)
        broken = True
        try:
            await context.send_initial_metadata(())  # the agent is attached, though there may be no session for long
            async for message in stream.to_agent():
                yield message
            await asyncio.sleep(CANCEL_DELAY)
            broken = context.cancelled()
        finally:
            stream.close()
            leaving = self._relay.ended(instance, stream, broken=broken)
        if leaving is not None:
            await leaving  # the stream of an agent that leaves ends once it is deregistered

    async def _registration(self, requests: AsyncIterator[bytes]) -> tuple[Registration, bool]:
        """Returns the registration of the first frame, as the registry stores it, and whether the agent takes relayed
        calls. Raises InvalidArgument."""
        try:
            frames = attach_service_pb2.AttachRequest.FromString(await _first(requests)).frames
        except DecodeError:
            raise MalformedMessage("the first message is not an AttachRequest") from None
        if len(frames) != 1 or frames[0].WhichOneof("frame") != "ready":
            raise FailedPrecondition("the first frame of Attach is Ready, alone", reason="SESSION_NOT_OPEN")
        ready = frames[0].ready
        if not ready.HasField("registration"):
            raise InvalidArgument("the first Ready of Attach has the registration")
        given = registration_from_proto(ready.registration)
        if not ready.instance_id or ready.instance_id != ready.registration.instance_id:
            raise InvalidArgument("ready.instance_id and that of its registration are the same, and not empty")
        check_role(call_context.current().principal, given.role)
        given = replace(given, ttl=given.ttl or DEFAULT_TTL)
        own = replace(given, address="", via_orchestrator=self._relay.address, tenant="", identity="", revision=0)
        return own, CALLS in ready.features


class RelayedAgentServicer(agent_service_pb2_grpc.AgentServiceServicer):
    """Serves the sessions of attached agents to the orchestrators of the mesh, this one included, and their other calls
    to all members."""

    def __init__(self, relay: AttachRelay, calls: RelayedCalls) -> None:
        self._relay = relay
        self._calls = calls

    @raw_messages
    async def Session(  # type: ignore[override]
        self, request_iterator: AsyncIterator[bytes], context: Any
    ) -> AsyncIterator[bytes]:
        """Relays a session to the agent that its Open names."""
        first = await _first(request_iterator)
        try:
            frames = agent_service_pb2.SessionRequest.FromString(first).frames
        except DecodeError:
            raise MalformedMessage("the first message is not a SessionRequest") from None
        stream: AttachStream = await self._relay.take(frames[0].open.instance_id if frames else "")
        async for message in stream.carry(_prefixed(first, request_iterator)):
            yield message

    @raw_messages
    async def Describe(self, request: Any, context: Any) -> Any:
        """Relays the call."""
        return await self._calls.unary(f"/{AGENT_SERVICE}/Describe", request, context)

    @raw_messages
    async def Deliver(self, request: Any, context: Any) -> Any:
        """Relays the call."""
        return await self._calls.unary(f"/{AGENT_SERVICE}/Deliver", request, context)

    @raw_messages
    async def RunTask(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Relays the call."""
        async with aclosing(self._calls.stream(f"/{AGENT_SERVICE}/RunTask", request, context)) as responses:
            async for response in responses:
                yield response


class RelayedToolServicer(tool_service_pb2_grpc.ToolServiceServicer):
    """Serves the tools that attached agents share to all members of the mesh."""

    def __init__(self, calls: RelayedCalls) -> None:
        self._calls = calls

    @raw_messages
    async def ListTools(self, request: Any, context: Any) -> Any:
        """Relays the call."""
        return await self._calls.unary(f"/{TOOL_SERVICE}/ListTools", request, context)

    @raw_messages
    async def LeaseTool(self, request: Any, context: Any) -> Any:
        """Relays the call."""
        return await self._calls.unary(f"/{TOOL_SERVICE}/LeaseTool", request, context)

    @raw_messages
    async def RevokeLease(self, request: Any, context: Any) -> Any:
        """Relays the call."""
        return await self._calls.unary(f"/{TOOL_SERVICE}/RevokeLease", request, context)

    @raw_messages
    async def ExecuteTool(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Relays the call."""
        async with aclosing(self._calls.stream(f"/{TOOL_SERVICE}/ExecuteTool", request, context)) as responses:
            async for response in responses:
                yield response


async def _first(requests: AsyncIterator[bytes]) -> bytes:
    """Returns the first message. Raises DeadlineExceeded if none comes in time, InvalidArgument if there is none."""
    try:
        async with asyncio.timeout(FIRST_TIMEOUT):
            return await anext(requests)
    except TimeoutError:
        raise DeadlineExceeded(f"no message came within {FIRST_TIMEOUT:g} s") from None
    except StopAsyncIteration:
        raise InvalidArgument("the stream ended without a message") from None


def _token(context: Any) -> str:
    """Returns the secret of the agent's process; empty without one. Raises InvalidArgument for a wrong length."""
    token = next((value for key, value in context.invocation_metadata() or () if key == TOKEN_KEY), "")
    if not isinstance(token, str) or (token and not MIN_TOKEN <= len(token) <= MAX_TOKEN):
        raise InvalidArgument(f"the metadata {TOKEN_KEY} must have {MIN_TOKEN} to {MAX_TOKEN} characters")
    return token


async def _prefixed(first: bytes, more: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for message in more:
        yield message
