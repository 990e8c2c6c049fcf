"""RunTask: one task for a simple caller, without an orchestrator. It takes a slot like any other task, ends with its
call, and nothing of it is parked."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Final

from archon import context
from archon.agent.attempt import HeldTask
from archon.api.agent.v1 import agent_pb2, agent_service_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import FieldViolation, InvalidArgument, Unavailable
from archon.frames import FrameQueue
from archon.wire import MAX_CHECKED_BYTES, set_seconds, to_seconds

if TYPE_CHECKING:
    from archon.agent.server import AgentServer

Responses = AsyncGenerator[agent_service_pb2.RunTaskResponse, None]

ANSWER_MARGIN: Final = 0.1
"""Seconds kept of the call's time for the answer to travel."""


class DirectOutlet:
    """Where the frames of such a task go: no stream, only what the caller sees."""

    park_ttl = 0.0
    peer_limit = MAX_CHECKED_BYTES
    agreed = frozenset({"progress"})

    def __init__(self) -> None:
        self.queue = FrameQueue()


async def run_task(
    agent: AgentServer, given: agent_pb2.AssignTask
) -> AsyncGenerator[agent_service_pb2.RunTaskResponse, None]:
    """Progress, then one result. Raises InvalidArgument without input, ResourceExhausted without room, Unavailable
    while the agent drains. A caller that leaves cancels the task."""
    if not any(part.WhichOneof("content") for part in given.input):
        raise InvalidArgument(
            "the task has no input", field_violations=[FieldViolation("task.input", "at least one part")]
        )
    refusal = agent.no_room(None)
    if refusal is not None:
        raise refusal
    outlet = DirectOutlet()
    task_id = f"direct-{uuid.uuid4().hex}"
    held = HeldTask(agent.tasks, common_pb2.TaskRef(task_id=task_id, run_id=task_id, attempt=1), outlet)
    agent.tasks.add(held)
    try:
        held.start(agent.handler, _within_the_call(given), agent.role)
        while message := await outlet.queue.batch():
            for frame in agent_service_pb2.SessionResponse.FromString(message).frames:
                if frame.HasField("progress"):
                    yield agent_service_pb2.RunTaskResponse(progress=frame.progress)
                elif frame.HasField("result"):
                    yield agent_service_pb2.RunTaskResponse(result=frame.result)
                    return
        raise Unavailable("the agent stopped before the task was done")
    finally:
        agent.tasks.drop(held)


def _within_the_call(given: agent_pb2.AssignTask) -> agent_pb2.AssignTask:
    """The task has no more time than its call."""
    left = context.current().remaining()
    if left is None:
        return given
    left = max(0.0, left - ANSWER_MARGIN)
    assigned = agent_pb2.AssignTask()
    assigned.CopyFrom(given)
    if not given.HasField("remaining") or to_seconds(given.remaining) > left:
        set_seconds(assigned.remaining, left)
    return assigned
