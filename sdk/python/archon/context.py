"""What crosses every hop: the time left, who asks, the trace, and the run and task it is about."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

ANONYMOUS = "anonymous"
DEFAULT_TENANT = "default"


@dataclass(frozen=True, slots=True)
class CallContext:
    """The call being served. `deadline` is on the monotonic clock of this process, in seconds; None: no end."""

    deadline: float | None = None
    tenant: str = DEFAULT_TENANT
    identity: str = ANONYMOUS
    traceparent: str = ""
    tracestate: str = ""
    run_id: str = ""
    task_id: str = ""

    def remaining(self) -> float | None:
        """Seconds left, never below 0; None where there is no end."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())


_current: ContextVar[CallContext | None] = ContextVar("archon_call", default=None)
_NONE = CallContext()


def current() -> CallContext:
    """The call being served; outside of one, an empty context."""
    return _current.get() or _NONE


def timeout(default: float) -> float:
    """Seconds that a call made now may take: the default, or less where the call being served has less left."""
    left = current().remaining()
    return default if left is None else min(default, left)


def enter(call: CallContext) -> None:
    """Makes `call` the current one for the rest of the current asyncio task."""
    _current.set(call)


@contextmanager
def serving(call: CallContext) -> Iterator[None]:
    """Makes `call` the current one within the block."""
    token = _current.set(call)
    try:
        yield
    finally:
        try:
            _current.reset(token)
        except ValueError:
            pass  # a generator that nobody finished, closed by the loop: the context that it was begun in is gone


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Bounds all calls made within the block: time left, not time configured. Never lengthens what is there."""
    call = current()
    end = time.monotonic() + seconds
    with serving(replace(call, deadline=end if call.deadline is None else min(end, call.deadline))):
        yield
