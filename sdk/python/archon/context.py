"""The context of a call, which travels with every hop: deadline, identity, trace, run and task."""

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
    """The call being served. `deadline` is in seconds on the monotonic clock of this process, or None."""

    deadline: float | None = None
    tenant: str = DEFAULT_TENANT
    identity: str = ANONYMOUS
    traceparent: str = ""
    tracestate: str = ""
    run_id: str = ""
    task_id: str = ""

    def remaining(self) -> float | None:
        """Seconds left, never below 0, or None if there is no deadline."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())


_current: ContextVar[CallContext | None] = ContextVar("archon_call", default=None)
_NONE = CallContext()


def current() -> CallContext:
    """The call being served, or an empty context outside a call."""
    return _current.get() or _NONE


def timeout(default: float) -> float:
    """The timeout of a call made now: `default` seconds, or what the call being served has left if that is less."""
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
            pass  # an unfinished generator that the loop closes runs in another context


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Limits all calls made within the block to `seconds` from now. Never extends an earlier deadline."""
    call = current()
    end = time.monotonic() + seconds
    with serving(replace(call, deadline=end if call.deadline is None else min(end, call.deadline))):
        yield
