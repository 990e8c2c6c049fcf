"""An agent over bare stubs: what a stranger writes in another language, and what a broken one sends.

`say` is called with each frame that comes after Open, and returns what to send: frames, or bytes of a whole message.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import grpc
import grpc.aio

from archon.api.agent.v1 import agent_service_pb2 as pb
from archon.api.agent.v1 import session_pb2
from archon.api.registry.v1 import registry_service_pb2, registry_service_pb2_grpc

Frame = session_pb2.OrchestratorFrame
Said = Sequence[session_pb2.AgentFrame | bytes]


class BareAgent:
    """The smallest member: Open is answered by Ready, heartbeats are echoed, RegisterInstance is called every ttl/3."""

    def __init__(
        self,
        role: str,
        registry: str,
        say: Callable[[Frame], Said],
        *,
        features: Sequence[str] = (),
        before_ready: Said = (),
        max_tasks: int = 1,
        max_waiting: int = 0,
        max_message_bytes: int = 0,
    ) -> None:
        self.instance_id = f"{role}-{uuid.uuid4().hex[:8]}"
        self.frames: list[Frame] = []
        self.streams = 0
        self.address = ""
        self._role = role
        self._registry = registry
        self._say = say
        self._before_ready = before_ready
        self._ready = session_pb2.Ready(
            instance_id=self.instance_id,
            protocol=1,
            features=features,
            max_tasks=max_tasks,
            max_waiting=max_waiting,
            max_message_bytes=max_message_bytes,
        )
        self._server = grpc.aio.server()
        self._beat: asyncio.Task[None] | None = None

    async def __aenter__(self) -> BareAgent:
        handler: Any = grpc.stream_stream_rpc_method_handler(self._session)
        service = grpc.method_handlers_generic_handler("archon.api.agent.v1.AgentService", {"Session": handler})
        self._server.add_generic_rpc_handlers((service,))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        await self._server.start()
        self._beat = asyncio.create_task(self._register())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._beat is not None:
            self._beat.cancel()
        await self._server.stop(0)

    async def _register(self) -> None:
        async with grpc.aio.insecure_channel(self._registry) as channel:
            stub = registry_service_pb2_grpc.RegistryServiceStub(channel)
            request = registry_service_pb2.RegisterInstanceRequest()
            request.registration.instance_id = self.instance_id
            request.registration.role = self._role
            request.registration.address = self.address
            request.registration.ttl.seconds = 3
            while True:
                await stub.RegisterInstance(request, timeout=5)
                await asyncio.sleep(1)

    async def _session(self, incoming: Any, context: Any) -> Any:
        self.streams += 1
        async for raw in incoming:
            for frame in pb.SessionRequest.FromString(raw).frames:
                for said in self._answer(frame):
                    yield said if isinstance(said, bytes) else pb.SessionResponse(frames=[said]).SerializeToString()

    def _answer(self, frame: Frame) -> Said:
        match frame.WhichOneof("frame"):
            case "open":
                return [*self._before_ready, session_pb2.AgentFrame(ready=self._ready)]
            case "heartbeat":
                echo = session_pb2.Heartbeat(echo=frame.heartbeat.counter)
                return [session_pb2.AgentFrame(heartbeat=echo)]
            case _:
                self.frames.append(frame)
                return self._say(frame)
