"""Services whose every answer a scenario gives: the orchestrator, the registry and the memory service of a client, and
the owners of the tools that it calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message

from archon import status
from archon.api.memory.v1 import memory_graph_service_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2
from archon.api.registry.v1 import registry_service_pb2
from archon.api.tool.v1 import tool_service_pb2
from archon.conformance.patterns import shown
from archon.conformance.peers.calls import Call, drain, note
from archon.conformance.peers.serving import Place
from archon.conformance.values import to_value
from archon.errors import ArchonError
from archon.loopback import with_port
from archon.principal import Kind

OWNERS: Final = ("owner", "owner2")
"""Agents that share tools; each has its name as its role."""

SERVICES: Final[dict[str, ServiceDescriptor]] = {
    "orchestrator": orchestrator_service_pb2.DESCRIPTOR.services_by_name["OrchestratorService"],
    "registry": registry_service_pb2.DESCRIPTOR.services_by_name["RegistryService"],
    "memory": memory_graph_service_pb2.DESCRIPTOR.services_by_name["MemoryGraphService"],
    **dict.fromkeys(OWNERS, tool_service_pb2.DESCRIPTOR.services_by_name["ToolService"]),
}

Rule = Callable[[Call], bool]
"""Answers a call at once if it is meant for it, and returns whether it did."""


class PlainStatus(Exception):
    """A status without details, as servers that are no part of Archon send it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = grpc.StatusCode[code]


class ScriptedService:
    """Serves one service of the mesh. A call waits in `calls` until a scenario answers it, unless a rule does."""

    def __init__(self, name: str, place: Place) -> None:
        self.name = name
        self._place = place
        self._descriptor = SERVICES[name]
        self._server: Any = None
        self._port = 0
        self.calls: list[Call] = []
        self.rules: list[Rule] = []
        self.changed = asyncio.Condition()

    @property
    def address(self) -> str:
        """The address of the service as host:port."""
        return with_port(self._place.host, self._port)

    def serves(self, method: str) -> bool:
        """Whether the service has a method."""
        return method in self._descriptor.methods_by_name

    def response(self, method: str) -> Message:
        """Returns an empty response of a method."""
        found = self._descriptor.methods_by_name[method]
        return message_factory.GetMessageClass(found.output_type)()

    async def start(self, guise: str = "") -> None:
        """Serves, on the port of the last time if there was one, with the certificate of a `guise`."""
        handlers = {method.name: self._handler(method) for method in self._descriptor.methods}
        generic = grpc.method_handlers_generic_handler(self._descriptor.full_name, handlers)
        self._server, self._port = await self._place.serve(
            self.name,
            lambda server: server.add_generic_rpc_handlers((generic,)),
            self._port,
            guise=guise,
            kind=Kind.AGENT if self.name in OWNERS else Kind.SERVICE,
        )

    async def stop(self) -> None:
        """Stops at once, as a process that is killed. Idempotent."""
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(0)

    def _handler(self, method: MethodDescriptor) -> Any:
        request = message_factory.GetMessageClass(method.input_type)
        options: dict[str, Any] = {
            "request_deserializer": request.FromString,
            "response_serializer": lambda message: message.SerializeToString(),
        }

        async def unary(message: Message, context: Any) -> Message | None:
            async with aclosing(self._answers(method.name, message, context)) as answers:
                async for answer in answers:
                    return answer
            return None

        async def stream(message: Message, context: Any) -> AsyncIterator[Message]:
            async with aclosing(self._answers(method.name, message, context)) as answers:
                async for answer in answers:
                    yield answer

        async def both(messages: AsyncIterator[Message], context: Any) -> AsyncIterator[Message]:
            async with aclosing(self._both(method.name, messages, context)) as answers:
                async for answer in answers:
                    yield answer

        if method.client_streaming:
            return grpc.stream_stream_rpc_method_handler(both, **options)
        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(stream, **options)
        return grpc.unary_unary_rpc_method_handler(unary, **options)

    async def _answers(self, method: str, message: Message, context: Any) -> AsyncGenerator[Message, None]:
        call = note(method, message, context)
        await self._arrived(call)
        async for answer in drain(call, lambda error: _fail(context, error)):
            yield answer

    async def _both(self, method: str, messages: AsyncIterator[Message], context: Any) -> AsyncGenerator[Message, None]:
        first = await anext(messages, None)
        call = note(method, first, context)
        call.requests.append(call.request)
        reading = asyncio.create_task(self._read(call, messages), name="conformance: read commands")
        await self._arrived(call)
        try:
            async for answer in drain(call, lambda error: _fail(context, error)):
                yield answer
        finally:
            reading.cancel()

    async def _read(self, call: Call, messages: AsyncIterator[Message]) -> None:
        async for message in messages:
            call.requests.append(to_value(message))
            call.changed.set()
        call.requests.append({"half_closed": True})
        call.changed.set()

    async def _arrived(self, call: Call) -> None:
        if any(rule(call) for rule in list(self.rules)):
            call.taken = True
        async with self.changed:
            self.calls.append(call)
            self.changed.notify_all()


def mentions(call: Call, scenario: str) -> bool:
    """Whether a call is of a scenario: its id is in the requests or the metadata."""
    return scenario in shown([call.request, call.headers], 1 << 30)


async def _fail(context: Any, error: Exception) -> None:
    if isinstance(error, PlainStatus):
        await context.abort(error.code, str(error))
    assert isinstance(error, ArchonError)
    await status.abort(context, error)
