"""AgentService over gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final

from archon.agent.run_task import run_task
from archon.agent.session import PROTOCOL, Agent
from archon.api.agent.v1 import agent_service_pb2, agent_service_pb2_grpc
from archon.context import current
from archon.errors import ResourceExhausted
from archon.interceptors import raw_messages
from archon.registry.convert import registration_to_proto

SERVICE: Final = "archon.api.agent.v1.AgentService"


class AgentServicer(agent_service_pb2_grpc.AgentServiceServicer):
    """Decodes calls, hands them to the agent, and encodes the answers."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def RunTask(
        self, request: agent_service_pb2.RunTaskRequest, context: Any
    ) -> AsyncIterator[agent_service_pb2.RunTaskResponse]:
        async with aclosing(run_task(self._agent, request.task)) as responses:
            async for response in responses:
                yield response

    async def Deliver(
        self, request: agent_service_pb2.DeliverRequest, context: Any
    ) -> agent_service_pb2.DeliverResponse:
        """Takes in messages of another instance."""
        return self._agent.direct.deliver(request, current().principal)

    async def Describe(
        self, request: agent_service_pb2.DescribeRequest, context: Any
    ) -> agent_service_pb2.DescribeResponse:
        """The current registration, the protocol and features of sessions, and the health of the tools."""
        return agent_service_pb2.DescribeResponse(
            registration=registration_to_proto(self._agent.registration),
            protocols=[PROTOCOL],
            features=self._agent.features,
            input_modes=["text/plain"],
            output_modes=["text/plain"],
            running_tasks=self._agent.attempts.working,
            tools=[health.proto for health in self._agent.tool_health()],
        )

    @raw_messages
    async def Session(  # type: ignore[override]
        self, request_iterator: AsyncIterator[bytes], context: Any
    ) -> AsyncIterator[bytes]:
        """A session: one reader task and this writer. The end of either ends the other."""
        session = self._agent.stream_began()
        if (call := asyncio.current_task()) is not None:
            session.on_stuck = call.cancel
        reader = asyncio.create_task(session.read(request_iterator), name="session-read")
        try:
            while message := await session.queue.batch():
                yield message
            if session.queue.overflowed:
                raise ResourceExhausted("the orchestrator does not read its stream", retry_delay=1.0)
            if session.error is not None:
                raise session.error
        finally:
            reader.cancel()
            self._agent.stream_ended(session)
            await asyncio.wait([reader], timeout=1.0)
