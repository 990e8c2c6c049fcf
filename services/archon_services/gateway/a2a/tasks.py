"""A run as an A2A task: state, artifacts, and the messages that went to and fro."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final

from a2a.types import a2a_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from archon.types.failure import Failure
from archon.types.part import Part
from archon.types.run import Run
from archon.types.task_state import TaskState
from archon_services.common.a2a_keys import USAGE, usage_values
from archon_services.common.a2a_parts import message_id_of, parts_to_a2a, struct
from archon_services.gateway.a2a.questions import Asked

AGENT: Final = "dev.archon/a2a-agent"
"""Metadata of a run that an A2A client has submitted: the role that it went to, or `*` for the mesh itself."""

MESH: Final = "*"

TRACE: Final = "dev.archon/trace-id"
"""Metadata of a task: the id of its trace; empty if it has none."""

STATES: Final = {
    TaskState.SUBMITTED: a2a_pb2.TaskState.TASK_STATE_SUBMITTED,
    TaskState.WORKING: a2a_pb2.TaskState.TASK_STATE_WORKING,
    TaskState.COMPLETED: a2a_pb2.TaskState.TASK_STATE_COMPLETED,
    TaskState.FAILED: a2a_pb2.TaskState.TASK_STATE_FAILED,
    TaskState.CANCELED: a2a_pb2.TaskState.TASK_STATE_CANCELED,
    TaskState.REJECTED: a2a_pb2.TaskState.TASK_STATE_REJECTED,
    TaskState.INPUT_REQUIRED: a2a_pb2.TaskState.TASK_STATE_INPUT_REQUIRED,
    TaskState.AUTH_REQUIRED: a2a_pb2.TaskState.TASK_STATE_AUTH_REQUIRED,
}

INTERRUPTED: Final = frozenset((STATES[TaskState.INPUT_REQUIRED], STATES[TaskState.AUTH_REQUIRED]))

_CONTEXTS: Final = uuid.UUID("6f0a2f5e-0f0c-5e0b-9d0e-9b1c2f3f4a55")
"""Namespace of the contexts that are made for messages without one."""


def context_of(run: Run) -> str:
    """Returns the context of a task: the session of the run; without one, the run is its own context."""
    return run.session_id or run.run_id


def new_context(message_id: str) -> str:
    """Returns a context for a message that names none: the same for a message that is sent again."""
    return str(uuid.uuid5(_CONTEXTS, message_id)) if is_unique(message_id) else str(uuid.uuid4())


def is_unique(message_id: str) -> bool:
    """Whether the id of a message is a UUID, which no other message has: a message with the same id is sent again."""
    try:
        return str(uuid.UUID(message_id)) == message_id.lower()
    except ValueError:
        return False


def timestamp(seconds: float) -> Timestamp:
    """Returns a time in seconds since the epoch as a message."""
    message = Timestamp()
    message.FromNanoseconds(round(seconds * 1000) * 1_000_000)  # A2A's times have milliseconds
    return message


def changed_at(run: Run) -> float:
    """Returns the time of the status of a run, in seconds since the epoch: its end, else when its newest open question
    was asked, else its submit."""
    asked = max((question.create_time for question in run.questions), default=0.0)
    return run.end_time or max(asked, run.create_time)


def task_of(run: Run, history: Sequence[a2a_pb2.Message] = ()) -> a2a_pb2.Task:
    """Returns a run as a task, with its artifacts."""
    context_id = context_of(run)
    status = status_of(
        run.run_id, context_id, run.state, [Asked.from_question(each) for each in run.questions], run.failure
    )
    status.timestamp.CopyFrom(timestamp(changed_at(run)))
    return a2a_pb2.Task(
        id=run.run_id,
        context_id=context_id,
        status=status,
        artifacts=[artifact(answer.task_id, answer.role, answer.step_id, answer.parts) for answer in run.answers],
        history=history,
        metadata=struct({USAGE: usage_values(run.usage), TRACE: run.trace_id}),
    )


def status_of(
    run_id: str, context_id: str, state: TaskState, questions: Sequence[Asked], failure: Failure | None
) -> a2a_pb2.TaskStatus:
    """Returns the status of a task, without its time. An open question of a run that goes on is its state."""
    if questions and not state.final:
        return a2a_pb2.TaskStatus(state=questions[0].state, message=questions[0].message(run_id, context_id))
    status = a2a_pb2.TaskStatus(state=STATES.get(state, a2a_pb2.TaskState.TASK_STATE_WORKING))
    if failure is not None and state.final:
        status.message.CopyFrom(
            a2a_pb2.Message(
                message_id=f"{run_id}/failure",
                task_id=run_id,
                context_id=context_id,
                role=a2a_pb2.Role.ROLE_AGENT,
                parts=[a2a_pb2.Part(text=failure.message or failure.reason)],
                metadata=struct({"dev.archon/reason": failure.reason, "dev.archon/kind": failure.kind}),
            )
        )
    return status


def artifact(task_id: str, role: str, step_id: str, parts: Sequence[Part]) -> a2a_pb2.Artifact:
    """Returns an answer as an artifact. Its id is the id of the task of the mesh which gave it."""
    name = f"{role} ({step_id})" if step_id else role
    return a2a_pb2.Artifact(artifact_id=task_id, name=name, parts=parts_to_a2a(parts) or [a2a_pb2.Part(text="")])


def goal_message(run: Run) -> a2a_pb2.Message:
    """Returns the message that a task began with."""
    return user_message(run.run_id, context_of(run), run.goal, "goal")


def user_message(run_id: str, context_id: str, parts: Sequence[Part], fallback: str) -> a2a_pb2.Message:
    """Returns content as a message of the user, with the id of the A2A message that it came with."""
    return a2a_pb2.Message(
        message_id=message_id_of(parts) or f"{run_id}/{fallback}",
        task_id=run_id,
        context_id=context_id,
        role=a2a_pb2.Role.ROLE_USER,
        parts=parts_to_a2a(parts),
    )
