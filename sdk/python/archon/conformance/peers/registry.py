"""A registry that grants every lease, until a scenario says otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.message import Message

from archon import status
from archon.api.registry.v1 import registry_pb2
from archon.api.registry.v1 import registry_service_pb2 as pb
from archon.conformance.peers.calls import Call, note
from archon.conformance.peers.serving import Place
from archon.errors import ArchonError
from archon.wire import set_seconds

SERVICE: Final = "archon.api.registry.v1.RegistryService"


class FakeRegistry:
    """Notes all calls of an agent. `refuse` has the error of a method."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._server: Any = None
        self._port = 0
        self._streams: set[Any] = set()
        self.calls: list[Call] = []
        self.registered: dict[str, registry_pb2.Registration] = {}
        self.refuse: dict[str, ArchonError] = {}
        self.expired: set[str] = set()
        """Instances whose lease is reported as expired until they register again."""
        self.keys_json = ""
        self.changed = asyncio.Condition()

    @property
    def address(self) -> str:
        """host:port."""
        host = f"[{self._place.host}]" if ":" in self._place.host else self._place.host
        return f"{host}:{self._port}"

    async def start(self) -> None:
        """Serves, on the port of the last time if there was one."""

        def add(server: grpc.aio.Server) -> None:
            unary = grpc.unary_unary_rpc_method_handler
            handlers: dict[str, Any] = {
                "RegisterInstance": unary(self._register, pb.RegisterInstanceRequest.FromString, _serialized),
                "DeregisterInstance": unary(self._deregister, pb.DeregisterInstanceRequest.FromString, _serialized),
                "KeepAlive": grpc.stream_stream_rpc_method_handler(
                    self._keep_alive, pb.KeepAliveRequest.FromString, _serialized
                ),
            }
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))

        self._server, self._port = await self._place.serve("registry", add, self._port)

    async def stop(self) -> None:
        """Stops at once, as a process that is killed. Idempotent."""
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(0)

    async def _note(self, method: str, request: Any, context: Any) -> Call:
        call = note(method, request, context)
        async with self.changed:
            self.calls.append(call)
            self.changed.notify_all()
        if (error := self.refuse.get(method)) is not None:
            await status.abort(context, error)
        return call

    async def _register(self, request: pb.RegisterInstanceRequest, context: Any) -> pb.RegisterInstanceResponse:
        await self._note("RegisterInstance", request, context)
        self.registered[request.registration.instance_id] = request.registration
        self.expired.discard(request.registration.instance_id)
        response = pb.RegisterInstanceResponse(registration=request.registration, keys_json=self.keys_json)
        if not request.token:
            response.token = "a-token-of-the-registry"
        set_seconds(response.ttl, _ttl(request.registration))
        return response

    async def _keep_alive(
        self, request_iterator: AsyncIterator[pb.KeepAliveRequest], context: Any
    ) -> AsyncIterator[pb.KeepAliveResponse]:
        async for request in request_iterator:
            await self._note("KeepAlive", request, context)
            response = pb.KeepAliveResponse()
            for instance_id in request.instance_ids:
                lease = response.leases.add(instance_id=instance_id)
                known = self.registered.get(instance_id)
                if known is None or instance_id in self.expired:
                    lease.expired = True
                else:
                    set_seconds(lease.ttl, _ttl(known))
            yield response

    async def _deregister(self, request: pb.DeregisterInstanceRequest, context: Any) -> pb.DeregisterInstanceResponse:
        await self._note("DeregisterInstance", request, context)
        self.registered.pop(request.instance_id, None)
        return pb.DeregisterInstanceResponse()


def _ttl(registration: registry_pb2.Registration) -> float:
    return registration.ttl.seconds or 10.0


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()
