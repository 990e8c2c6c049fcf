"""The errors with which an agent refuses a frame, a task or a stream."""

from __future__ import annotations

from archon.errors import (
    FailedPrecondition,
    FieldViolation,
    InvalidArgument,
    ResourceExhausted,
    SessionReplaced,
    Unavailable,
    UnknownFrame,
)


class StreamRefused(FailedPrecondition):
    """Ends the whole stream; other errors refuse one frame."""


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


def no_capacity(retry_delay: float) -> ResourceExhausted:
    """The agent has no free slot; try again after `retry_delay` seconds."""
    return ResourceExhausted("this instance has no free slot", reason="NO_CAPACITY", retry_delay=retry_delay)
