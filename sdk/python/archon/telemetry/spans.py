"""Spans of tasks and of unary calls, created if the process has a tracer provider: its own, or the one of `export`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from archon import context
from archon.errors import ArchonError
from archon.telemetry import export, names
from archon.telemetry.trace_parent import TraceParent, sampled_flag

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

_EMPTY: Any = {}
_task_span: ContextVar[Span | None] = ContextVar("archon_task_span", default=None)
_client_spans: ContextVar[bool] = ContextVar("archon_client_spans", default=True)
_tracer: Tracer | None = None
_MAX_STATUS: Final = 1024
"""Characters of an error's message in a span."""


def tracer() -> Tracer | None:
    """Returns the tracer of this process, or None if it makes no spans."""
    global _tracer
    if _tracer is None:
        # A process whose spans go somewhere has imported OpenTelemetry.
        otel = sys.modules.get("opentelemetry.trace")
        if otel is None:
            return None
        provider = otel.get_tracer_provider()
        if isinstance(provider, otel.ProxyTracerProvider):
            return None
        _tracer = provider.get_tracer(names.SCOPE)
    return _tracer


def task_span() -> Span | None:
    """Returns the span of the task being served, or None."""
    return _task_span.get()


def start_task_span(name: str, attributes: dict[str, Any]) -> Span | None:
    """Starts a span that serves a task, and makes it current for the rest of the asyncio task. Its parent is the
    current call context's; `attributes` are the span's from now on. Returns None if this process makes no spans, the
    caller's trace is not recorded, or the exporter is stuck: spans that the task starts are not recorded either then.
    The caller ends the span."""
    active, exporting = tracer(), export.current()
    if active is None:
        return None
    from opentelemetry import context as otel_context
    from opentelemetry import trace

    from archon.telemetry.light_span import LightSpan, UnrecordedSpan

    call = context.current()
    sampled = sampled_flag(call.traceparent) if exporting is not None and exporting.follows_parents else None
    if exporting is not None and (sampled is False or not exporting.queue.has_room()):
        if call.traceparent:
            unrecorded = UnrecordedSpan(call.traceparent, call.tracestate)
            otel_context.attach(trace.set_span_in_context(unrecorded, _EMPTY))
        return None
    span: Span
    if exporting is not None and sampled:
        span = LightSpan(name, call.traceparent, call.tracestate, attributes, exporting.queue.put, exporting.max_length)
    else:
        span = active.start_span(name, _served(), trace.SpanKind.SERVER, attributes)
    otel_context.attach(trace.set_span_in_context(span, _EMPTY))
    _task_span.set(span)
    return span


def start_rpc_span(method: str, *, server: bool) -> Span | None:
    """Starts a span of a unary call; `method` is `/package.Service/Method`. Returns None for a call that belongs to no
    trace, or to one that is not recorded: health checks and polls would drown the traces of runs.

    The parent is the call context's; for a client the current span, if there is one."""
    active = tracer()
    if active is None or not (context.current().traceparent if server else _client_spans.get()):
        return None
    from opentelemetry import trace

    parent = trace.set_span_in_context(trace.get_current_span())
    if server or not trace.get_current_span(parent).get_span_context().is_valid:
        served = _served()
        if served is None:
            return None
        parent = served
    if not trace.get_current_span(parent).get_span_context().trace_flags.sampled:
        return None
    name = method.lstrip("/")
    kind = trace.SpanKind.SERVER if server else trace.SpanKind.CLIENT
    return active.start_span(name, parent, kind, {names.RPC_SYSTEM: "grpc", names.RPC_METHOD: name})


@contextmanager
def within(span: Span) -> Iterator[None]:
    """Makes a span current within the block; the caller ends it."""
    from opentelemetry import trace

    with trace.use_span(span, record_exception=False, set_status_on_exception=False):
        yield


@contextmanager
def without_client_spans() -> Iterator[None]:
    """Calls made within the block join the trace, but have no span in this process."""
    token = _client_spans.set(False)
    try:
        yield
    finally:
        _client_spans.reset(token)


def end_rpc_span(span: Span, error: ArchonError | None = None) -> None:
    """Ends the span of a call that succeeded, or ended with `error`."""
    span.set_attribute(names.RPC_STATUS, error.code if error is not None else "OK")
    if error is not None:
        fail(span, error.reason, error.message)
    span.end()


@contextmanager
def root_span(name: str) -> Iterator[None]:
    """A span around a program's work, such as a command of a command line; the calls within it join its trace."""
    active = tracer()
    if active is None:
        yield
        return
    with active.start_as_current_span(name, _served()):
        yield


def fail(span: Span, error_type: str, message: str) -> None:
    """Marks a span as failed. `error_type` is of low cardinality: the reason of an error, or the name of its class."""
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute(names.ERROR_TYPE, error_type)
    span.set_status(Status(StatusCode.ERROR, message[:_MAX_STATUS]))


def _served() -> Context | None:
    """Returns the OpenTelemetry context with the span of the call being served as the parent; None if there is none."""
    call = context.current()
    parent = TraceParent.parse(call.traceparent) if call.traceparent else None
    return remote_context(parent, call.tracestate) if parent is not None else None


def remote_context(parent: TraceParent, tracestate: str) -> Context:
    """Returns the OpenTelemetry context with a span of another process as the parent."""
    from opentelemetry import trace

    remote = trace.SpanContext(
        int(parent.trace_id, 16),
        int(parent.span_id, 16),
        is_remote=True,
        trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED if parent.sampled else trace.TraceFlags.DEFAULT),
        trace_state=trace.TraceState.from_header([tracestate]) if tracestate else None,
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(remote))
