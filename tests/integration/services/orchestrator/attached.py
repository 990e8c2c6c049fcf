"""Members that attach to an orchestrator over stubs alone, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio

from archon.agent.attachment import METHOD, TOKEN_KEY
from archon.api.agent.v1 import attach_service_pb2, session_pb2
from archon.api.registry.v1 import registry_pb2
from archon.channel import attach_options, connect
from archon.registry import Registration, RegistryClient
from archon.status import from_rpc_error
from tests.fixtures.mesh import Mesh


async def instances(mesh: Mesh, role: str) -> list[Registration]:
    """Returns the registered instances of a role."""
    async with RegistryClient(mesh.registry.address) as registry:
        return await registry.list_instances(role)


class Raw:
    """One Attach stream, message by message, over stubs alone."""

    def __init__(self, orchestrator: str, token: str = "") -> None:
        self._channel = connect(orchestrator, attach_options())
        self._out: asyncio.Queue[bytes | None] = asyncio.Queue()
        metadata = ((TOKEN_KEY, token),) if token else ()
        method: Any = self._channel.stream_stream(METHOD)
        self._call = method(self._requests(), metadata=metadata)

    async def _requests(self) -> AsyncIterator[bytes]:
        while (message := await self._out.get()) is not None:
            yield message

    async def send(self, *frames: session_pb2.AgentFrame) -> None:
        await self._out.put(attach_service_pb2.AttachRequest(frames=frames).SerializeToString())

    async def send_raw(self, message: bytes) -> None:
        await self._out.put(message)

    async def register(self, instance_id: str, role: str = "singer") -> None:
        registration = registry_pb2.Registration(instance_id=instance_id, role=role, version="1.0.0", max_tasks=1)
        ready = session_pb2.Ready(instance_id=instance_id, role=role, registration=registration)
        await self.send(session_pb2.AgentFrame(ready=ready))

    async def registered(self) -> None:
        """Waits until the orchestrator has registered the agent."""
        async with asyncio.timeout(5.0):
            await self._call.initial_metadata()

    async def frame(self) -> session_pb2.OrchestratorFrame:
        """Returns the first frame of the next message. Raises the error with which the stream ends."""
        return (await self.message()).frames[0]

    async def message(self) -> attach_service_pb2.AttachResponse:
        """Returns the next message. Raises the error with which the stream ends."""
        try:
            async with asyncio.timeout(5.0):
                message = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from None
        if message is grpc.aio.EOF:
            code = await self._call.code()
            raise EOFError(str(code))
        return attach_service_pb2.AttachResponse.FromString(message)

    async def close(self) -> None:
        self._call.cancel()
        await self._channel.close()


@asynccontextmanager
async def raw(orchestrator: str, token: str = "") -> AsyncIterator[Raw]:
    stream = Raw(orchestrator, token)
    try:
        yield stream
    finally:
        await stream.close()
