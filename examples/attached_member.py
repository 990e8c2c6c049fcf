"""The smallest member that attaches, over stubs alone: python attached_member.py HOST:PORT"""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio

from archon.api.agent.v1.attach_service_pb2 import AttachRequest
from archon.api.agent.v1.attach_service_pb2_grpc import AttachServiceStub
from archon.api.agent.v1.session_pb2 import AgentFrame, Heartbeat, Ready
from archon.api.common.v1.common_pb2 import TASK_STATE_COMPLETED
from archon.api.registry.v1.registry_pb2 import Registration

INSTANCE = f"shouter-{uuid.uuid4().hex[:12]}"
METADATA = [("archon-attach-token", uuid.uuid4().hex), ("authorization", f"Bearer {os.environ.get('ARCHON_TOKEN')}")]


async def stream(stub: Any, streams: asyncio.TaskGroup) -> None:
    """Serves one stream: registers, and is a session once Open has come."""
    replies: asyncio.Queue[AgentFrame] = asyncio.Queue()
    registration = Registration(instance_id=INSTANCE, role="shouter", version="1.0.0", max_tasks=1)
    replies.put_nowait(AgentFrame(ready=Ready(instance_id=INSTANCE, role="shouter", registration=registration)))

    async def requests() -> AsyncIterator[AttachRequest]:
        while True:
            yield AttachRequest(frames=[await replies.get()])

    async for message in stub.Attach(requests(), metadata=METADATA):
        for frame in message.frames:
            match frame.WhichOneof("frame"):
                case "open":
                    streams.create_task(stream(stub, streams))  # the next session needs a stream of its own
                    replies.put_nowait(AgentFrame(ready=Ready(instance_id=INSTANCE, protocol=1, max_tasks=1)))
                case "heartbeat":
                    replies.put_nowait(AgentFrame(heartbeat=Heartbeat(echo=frame.heartbeat.counter)))
                case "assign_task":
                    answer = AgentFrame(task=frame.task, sequence=1)
                    answer.result.state = TASK_STATE_COMPLETED
                    answer.result.output.add(text=frame.assign_task.input[0].text.upper())
                    replies.put_nowait(answer)


async def main(orchestrator: str) -> None:
    while True:
        try:
            async with grpc.aio.insecure_channel(orchestrator) as channel, asyncio.TaskGroup() as streams:
                streams.create_task(stream(AttachServiceStub(channel), streams))
        except* grpc.aio.AioRpcError as broken:
            sys.stderr.write(f"{broken.exceptions[0]}\n")
        await asyncio.sleep(1)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
