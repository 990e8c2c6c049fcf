"""The position of a tool call in its run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from archon.errors import FailedPrecondition


@dataclass(frozen=True, slots=True)
class CallPosition:
    """Position of a tool call in its run, both numbers counted from 1. `path` has the positions of the calls that it is
    nested in, such as calls of sub-agents, outermost first, and its own.

    The position is the same in every attempt that takes the same course.
    """

    iteration: int
    number: int
    path: str = ""


_position: ContextVar[CallPosition | None] = ContextVar("archon_call_position", default=None)


def current_position() -> CallPosition | None:
    """Returns the position of the current tool call, or None outside a tool call."""
    return _position.get()


def get_call_position() -> CallPosition:
    """Returns the position of the current tool call. Raises FailedPrecondition outside a tool call."""
    position = _position.get()
    if position is None:
        raise FailedPrecondition("no tool call is in progress here")
    return position


@contextmanager
def bind_position(iteration: int, number: int) -> Iterator[None]:
    """Makes this call the current one within the block."""
    outer = _position.get()
    own = f"{iteration}.{number}"
    token = _position.set(CallPosition(iteration, number, f"{outer.path}/{own}" if outer is not None else own))
    try:
        yield
    finally:
        _position.reset(token)
