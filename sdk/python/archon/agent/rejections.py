"""The errors with which an agent refuses a frame, a task or a stream."""

from __future__ import annotations

from typing import Final

from archon.api.common.v1 import common_pb2
from archon.errors import (
    FailedPrecondition,
    FieldViolation,
    InvalidArgument,
    PermissionDenied,
    ResourceExhausted,
    SessionReplaced,
    Unavailable,
    UnknownFrame,
)
from archon.failure_kinds import OUT_OF_MEMORY

MAX_ID: Final = 256
"""Characters of an orchestrator's id, a run id or a task id. An id is kept for long, and sent back with each error."""


class StreamRefused(FailedPrecondition):
    """Ends the whole stream; other errors refuse one frame."""


class StreamExhausted(ResourceExhausted):
    """Ends the whole stream: a limit of sessions, streams or frames is reached."""


def check_ref(ref: common_pb2.TaskRef) -> None:
    """Raises InvalidArgument unless the reference names a task and a run by ids of at most MAX_ID characters."""
    for field, text in (("task.task_id", ref.task_id), ("task.run_id", ref.run_id)):
        if not 0 < len(text) <= MAX_ID:
            raise invalid(field, f"must be 1 to {MAX_ID} characters")


def not_yours(ref: common_pb2.TaskRef) -> PermissionDenied:
    """The attempt belongs to another orchestrator, whose epoch is not lower."""
    return PermissionDenied(
        f"task {ref.task_id} was assigned by another orchestrator, or belongs to another run",
        metadata={"task_id": ref.task_id},
    )


def invalid(field: str, description: str) -> InvalidArgument:
    """A field of a frame is invalid."""
    return InvalidArgument(f"{field}: {description}", field_violations=[FieldViolation(field, description)])


def unknown(arm: str | None) -> UnknownFrame:
    """The kind of frame is unknown, or was not agreed to."""
    return UnknownFrame(f"unknown frame {arm or 'of a newer version'}")


def replaced(orchestrator_id: str) -> SessionReplaced:
    """A newer stream of the same orchestrator has replaced this one."""
    return SessionReplaced("a newer stream of the same orchestrator took over", metadata={"id": orchestrator_id})


def draining() -> Unavailable:
    """The agent takes no new tasks."""
    return Unavailable("this instance is draining", reason="DRAINING")


def short_of_memory() -> ResourceExhausted:
    """The agent takes no task beside those in progress until it has memory again."""
    return ResourceExhausted(
        "this instance is short of memory", reason="NO_CAPACITY", kind=OUT_OF_MEMORY, retry_delay=1.0
    )


def no_capacity(retry_delay: float) -> ResourceExhausted:
    """The agent has no free slot; try again after `retry_delay` seconds."""
    return ResourceExhausted("this instance has no free slot", reason="NO_CAPACITY", retry_delay=retry_delay)
