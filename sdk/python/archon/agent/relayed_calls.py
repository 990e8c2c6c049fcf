"""Calls of an attached agent's services, which its orchestrator relays: each has a stream of its own.

A dialled agent has the same handlers. The orchestrator has verified the caller; the policy of this process is checked
again.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import DecodeError

from archon import context, status
from archon.api.agent.v1 import attach_service_pb2 as pb
from archon.channel import MAX_RELAYED_BYTES
from archon.context import CallContext
from archon.errors import (
    ArchonError,
    MessageTooLarge,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
    Unimplemented,
)
from archon.principal import DEFAULT_TENANT, Kind, Principal
from archon.security.policy import Policy, check_allowed
from archon.security.policy_file import own_policy
from archon.server import Service
from archon.wire import to_seconds

FEATURE: Final = "calls"
"""The feature of the first Ready of an agent that takes relayed calls."""

MAX_CALLS: Final = 64
"""Relayed calls in progress at a time."""

MAX_SECONDS: Final = 3_600.0
"""Seconds of a call, if its caller has no earlier deadline."""

STOP_SECONDS: Final = 1.0
"""Seconds that the calls in progress have to end when the agent stops."""

Send = Callable[[pb.CallAnswer], Awaitable[object]]
"""Sends a part of an answer; waits while the orchestrator does not read."""


def call_in(message: bytes) -> pb.RelayedCall | None:
    """Returns the call that the first message of a stream carries; None if the stream is a session."""
    try:
        received = pb.AttachResponse.FromString(message)
    except DecodeError:
        return None  # the session answers it
    return received.call if received.HasField("call") else None


@dataclass(frozen=True, slots=True)
class _Details:
    method: str


class _Methods:
    """Takes the handlers of generated `add_..._to_server` functions, and finds them by method."""

    def __init__(self) -> None:
        self._services: list[Any] = []

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        self._services += handlers

    def add_registered_method_handlers(self, service_name: str, handlers: Any) -> None:
        """Does nothing: the generic handlers serve these methods."""

    def find(self, method: str) -> Any:
        """Returns the handler of a method whose request is one message. Raises Unimplemented."""
        for service in self._services:
            handler = service.service(_Details(method))
            if handler is not None and not handler.request_streaming:
                return handler
        raise Unimplemented(f"the agent serves no calls of {method[:200]!r} over a relay", metadata={"method": method})


class RelayedCalls:
    """Serves relayed calls by the handlers of `services`. Raises FailedPrecondition if ARCHON_POLICY cannot be used."""

    def __init__(self, services: list[Service]) -> None:
        self._methods = _Methods()
        for service in services:
            service.add(service.servicer, self._methods)
        self._policy: Policy = own_policy()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    @property
    def running(self) -> int:
        """The number of calls that the agent executes now."""
        return len(self._tasks)

    def begin(self, call: pb.RelayedCall, send: Send) -> asyncio.Task[None]:
        """Serves a call in a task, which never raises; its caller cancels it when the caller of the call has left."""
        task = asyncio.create_task(self._serve(call, send), name=f"relayed call {call.method.rpartition('/')[2]}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def stop(self) -> None:
        """Ends the calls in progress with Unavailable. Idempotent."""
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_SECONDS)

    async def _serve(self, call: pb.RelayedCall, send: Send) -> None:
        error: ArchonError
        try:
            await self._answer(call, send)
            await send(pb.CallAnswer(completed=pb.CallCompleted()))
            return
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            error = Unavailable("the agent stops")
        except Exception as raised:  # noqa: BLE001 - whatever it is, the caller gets a typed error
            error = status.as_error(raised)
        await send(pb.CallAnswer(failure=status.to_failure(error)))

    async def _answer(self, call: pb.RelayedCall, send: Send) -> None:
        if self._stopping:
            raise Unavailable("the agent stops")
        if len(self._tasks) > MAX_CALLS:
            raise ResourceExhausted(f"{MAX_CALLS} relayed calls are in progress, which is the limit", retry_delay=1.0)
        left = min(MAX_SECONDS, to_seconds(call.remaining)) if call.HasField("remaining") else MAX_SECONDS
        served = _context_of(call, left)
        if served.principal is not None:
            check_allowed(call.method, served.principal, self._policy)
        handler = self._methods.find(call.method)
        context.enter(served)
        request = handler.request_deserializer(call.request)

        async def respond(response: Any) -> None:
            message = handler.response_serializer(response)
            if len(message) > MAX_RELAYED_BYTES:
                raise MessageTooLarge(f"the response has {len(message):,} bytes; a relay takes {MAX_RELAYED_BYTES:,}")
            await send(pb.CallAnswer(response=message))

        async with asyncio.timeout(left):
            if not handler.response_streaming:
                response = handler.unary_unary(request, None)
                await respond(await response if inspect.isawaitable(response) else response)
                return
            async with aclosing(handler.unary_stream(request, None)) as responses:
                async for response in responses:
                    await respond(response)


def _context_of(call: pb.RelayedCall, seconds: float) -> CallContext:
    """Returns the context of a call, as the server of a dialled agent makes it. Raises PermissionDenied for a kind of
    caller that this version does not know."""
    served = CallContext(
        deadline=time.monotonic() + seconds, traceparent=call.trace.traceparent, tracestate=call.trace.tracestate
    )
    if not call.HasField("caller"):
        return served
    caller = call.caller
    if caller.kind not in set(Kind):
        raise PermissionDenied(f"callers of the kind {caller.kind[:32]!r} are not known here")
    principal = Principal(
        Kind(caller.kind), caller.name, caller.tenant or DEFAULT_TENANT, roles=frozenset(caller.roles)
    )
    return CallContext(
        deadline=served.deadline,
        tenant=caller.identity_tenant or principal.tenant,
        identity=caller.identity or principal.identity,
        traceparent=served.traceparent,
        tracestate=served.tracestate,
        principal=principal,
    )


class CallStream:
    """The agent's end of one relayed call: its answers wait here, a few at a time, until gRPC sends them."""

    def __init__(self) -> None:
        self._answers: asyncio.Queue[pb.CallAnswer] = asyncio.Queue(2)

    async def serve(self, calls: RelayedCalls, call: pb.RelayedCall, incoming: AsyncIterator[bytes]) -> None:
        """Serves the call until the orchestrator ends the stream: the caller has its answer, or has left."""
        task = calls.begin(call, self._answers.put)
        try:
            async for _ in incoming:
                pass  # nothing is expected of the orchestrator but the end
        finally:
            task.cancel()
            await asyncio.wait([task], timeout=STOP_SECONDS)

    async def messages(self) -> AsyncIterator[bytes]:
        """Yields the messages for the orchestrator."""
        while True:
            answer = await self._answers.get()
            yield pb.AttachRequest(answer=answer).SerializeToString()
            if not answer.HasField("response"):
                return
