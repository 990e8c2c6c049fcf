"""What an agent refuses a frame, a task or a stream with."""

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


class Ending(FailedPrecondition):
    """Ends the stream, not only the frame."""


def invalid(field: str, description: str) -> InvalidArgument:
    """A field of a frame is wrong."""
    return InvalidArgument(f"{field}: {description}", field_violations=[FieldViolation(field, description)])


def unknown(arm: str | None) -> UnknownFrame:
    """An arm that isn't known here, or wasn't agreed to."""
    return UnknownFrame(f"this agent doesn't know the frame {arm or 'of this number'}")


def replaced(orchestrator_id: str) -> SessionReplaced:
    """What ends an older stream of the same orchestrator."""
    return SessionReplaced("a newer stream of the same orchestrator took over", metadata={"id": orchestrator_id})


def draining() -> Unavailable:
    """Why a task isn't taken while the agent drains."""
    return Unavailable("this instance is draining", reason="DRAINING")


def no_capacity(retry_delay: float) -> ResourceExhausted:
    """Why a task isn't taken above the capacity."""
    return ResourceExhausted("this instance has no room now", reason="NO_CAPACITY", retry_delay=retry_delay)
