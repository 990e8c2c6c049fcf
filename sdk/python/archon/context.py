"""The context of a call, which travels with every hop: deadline, identity, trace, run and task."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from archon.principal import DEFAULT_TENANT, Principal

ANONYMOUS = "anonymous"


@dataclass(frozen=True, slots=True)
class CallContext:
    """The call being served. `deadline` is in seconds on the monotonic clock of this process, or None.

    `tenant` and `identity` are those on whose behalf the call is made, `principal` is the caller that has presented its
    credentials, None without any. `run_id`, `task_id`, `attempt` and `role` belong to the attempt that an agent works
    on; empty and 0 otherwise."""

    deadline: float | None = None
    tenant: str = DEFAULT_TENANT
    identity: str = ANONYMOUS
    traceparent: str = ""
    tracestate: str = ""
    run_id: str = ""
    task_id: str = ""
    attempt: int = 0
    role: str = ""
    principal: Principal | None = None

    @property
    def actor(self) -> str:
        """The identity of the caller, if it acts on behalf of another one (`act` of RFC 8693); else empty."""
        caller = self.principal.identity if self.principal is not None else ""
        return caller if caller != self.identity else ""

    def remaining(self) -> float | None:
        """Seconds left, never below 0, or None if there is no deadline."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())


_current: ContextVar[CallContext | None] = ContextVar("archon_call", default=None)
_NONE = CallContext()


def current() -> CallContext:
    """The call being served, or an empty context outside a call."""
    return _current.get() or _NONE


def trace() -> tuple[str, str]:
    """The W3C `traceparent` and `tracestate` of calls made now: from the current OpenTelemetry span, or else from the
    call being served; empty texts if there is neither."""
    span_context = _current_span_context()
    if span_context is not None and span_context.is_valid:
        ids = f"{span_context.trace_id:032x}-{span_context.span_id:016x}-{span_context.trace_flags:02x}"
        return f"00-{ids}", span_context.trace_state.to_header()
    call = current()
    return call.traceparent, call.tracestate


def _current_span_context() -> Any:
    # A span can be current only in a process that has imported OpenTelemetry, which this package does not depend on.
    otel = sys.modules.get("opentelemetry.trace")
    get_current_span = getattr(otel, "get_current_span", None)
    return get_current_span().get_span_context() if get_current_span is not None else None


def timeout(default: float) -> float:
    """The timeout of a call made now: `default` seconds, or the rest of the call being served if that is less."""
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
