"""RunTask: one task in one call, without an orchestrator. It takes a slot like any other and ends with its call."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator
from typing import Final

from archon import context
from archon.agent.attempt import Attempt
from archon.agent.session import Agent
from archon.api.agent.v1 import agent_pb2, agent_service_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import FieldViolation, InvalidArgument, Unavailable
from archon.frames import FrameQueue
from archon.wire import MAX_CHECKED_BYTES, set_seconds, to_seconds

ANSWER_MARGIN: Final = 0.1
"""Seconds of the call's time that are kept for the answer to travel."""


class CallSink:
    """Takes the frames of such a task. The caller sees progress and the result; nothing is parked."""

    orchestrator_id = ""
    park_ttl = 0.0
    peer_limit = MAX_CHECKED_BYTES
    agreed = frozenset({"progress"})

    def __init__(self) -> None:
        self.queue = FrameQueue()


async def run_task(agent: Agent, task: agent_pb2.AssignTask) -> AsyncGenerator[agent_service_pb2.RunTaskResponse, None]:
    """Yields progress, then one result. A caller that leaves cancels the task.

    Raises InvalidArgument without input, ResourceExhausted without a free slot, Unavailable while the agent drains.
    """
    if not any(part.WhichOneof("content") for part in task.input):
        raise InvalidArgument(
            "the task has no input", field_violations=[FieldViolation("task.input", "at least one part")]
        )
    refusal = agent.refusal(None, None)
    if refusal is not None:
        raise refusal
    sink = CallSink()
    task_id = f"direct-{uuid.uuid4().hex}"
    attempt = Attempt(agent.attempts, common_pb2.TaskRef(task_id=task_id, run_id=task_id, attempt=1), sink)
    agent.attempts.add(attempt)
    try:
        handler = agent.bid_handler if task.HasField("bid_request") else agent.handler
        attempt.start(handler, _within_the_call(task), agent.role)
        while message := await sink.queue.batch():
            for frame in agent_service_pb2.SessionResponse.FromString(message).frames:
                if frame.HasField("progress"):
                    yield agent_service_pb2.RunTaskResponse(progress=frame.progress)
                elif frame.HasField("result"):
                    yield agent_service_pb2.RunTaskResponse(result=frame.result)
                    return
        raise Unavailable("the agent stopped before the task was done")
    finally:
        attempt.cancel(over=True)
        agent.attempts.drop(attempt)


def _within_the_call(task: agent_pb2.AssignTask) -> agent_pb2.AssignTask:
    """The task, with no more time than its call has."""
    left = context.current().remaining()
    if left is None:
        return task
    left = max(0.0, left - ANSWER_MARGIN)
    bounded = agent_pb2.AssignTask()
    bounded.CopyFrom(task)
    if not task.HasField("remaining") or to_seconds(task.remaining) > left:
        set_seconds(bounded.remaining, left)
    return bounded
