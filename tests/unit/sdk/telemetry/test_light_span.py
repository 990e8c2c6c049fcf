"""The span of the hot path keeps to OpenTelemetry's API."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, Status, StatusCode

from archon import context
from archon.telemetry import export, spans
from archon.telemetry.light_span import MAX_ATTRIBUTES, LightSpan
from archon.telemetry.span_data import SpanData
from archon.telemetry.span_queue import SpanQueue

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HEADER = f"00-{TRACE}-{PARENT}-01"


class Ended:
    """Takes spans."""

    def __init__(self) -> None:
        self.spans: list[SpanData] = []

    def put(self, span: LightSpan) -> None:
        self.spans += span.spans()


def test_it_continues_the_trace_of_its_parent() -> None:
    ended = Ended()
    span = LightSpan("invoke_agent a", HEADER, "k=v", {"a": 1}, ended.put)
    with trace.use_span(span):
        current = trace.get_current_span().get_span_context()
    assert (f"{current.trace_id:032x}", current.trace_state.to_header(), current.is_remote) == (TRACE, "k=v", False)
    assert current.trace_flags.sampled and span.is_recording()
    span.set_attributes({"b": True})
    span.end()
    span.end()
    (data,) = ended.spans
    assert not span.is_recording()
    assert (data.trace_id, data.parent_id, data.span_id) == (TRACE, PARENT, f"{current.span_id:016x}")
    assert (data.kind, data.remote_parent, data.attributes) == (SpanKind.SERVER, True, {"a": 1, "b": True})
    assert data.start <= data.end and data.error is None


@pytest.fixture
def exporting(monkeypatch: pytest.MonkeyPatch) -> Iterator[export.Export]:
    """An exporter of the process whose thread never exports."""
    provider = TracerProvider()
    queue = SpanQueue(InMemorySpanExporter(), provider.resource, encoded=False)
    active = export.Export(provider, queue, follows_parents=True, max_length=None)
    monkeypatch.setattr(export, "_export", active)
    monkeypatch.setattr(spans, "_tracer", provider.get_tracer("test"))
    yield active
    active.begin_close(5.0)()


def served(header: str, active: export.Export) -> tuple[trace.Span | None, trace.SpanContext, bool]:
    """Serves a task that starts a span. Returns the task's span, the current context, and whether the span records."""
    with context.serving(context.CallContext(traceparent=header)):
        task_span = spans.start_task_span("invoke_agent a", {})
        current = trace.get_current_span().get_span_context()
        with active.provider.get_tracer("user").start_as_current_span("work") as work:
            return task_span, current, work.is_recording()


@pytest.mark.parametrize("full", [False, True])
def test_below_an_unrecorded_span_nothing_is_recorded(exporting: export.Export, full: bool) -> None:
    exporting.queue._limit = 0 if full else 100
    header = HEADER if full else HEADER.removesuffix("01") + "00"
    task_span, current, records = contextvars.copy_context().run(served, header, exporting)
    assert (task_span, records, current.trace_flags.sampled) == (None, False, False)
    assert (f"{current.trace_id:032x}", f"{current.span_id:016x}") == (TRACE, PARENT), "logs name the trace"
    exporting.queue._limit = 100
    task_span, _, records = contextvars.copy_context().run(served, HEADER, exporting)
    assert task_span is not None and records


def test_after_its_end_nothing_changes() -> None:
    ended = Ended()
    span = LightSpan("x", HEADER, "", {}, ended.put)
    span.end()
    span.set_attribute("late", 1)
    span.add_event("late")
    span.set_status(Status(StatusCode.ERROR, "late"))
    (data,) = ended.spans
    assert (data.attributes, data.events, data.error) == ({}, (), None)


def test_an_exception_is_an_event_and_a_status() -> None:
    ended = Ended()
    span = LightSpan("x", HEADER, "", {}, ended.put)
    span.record_exception(ValueError("no"))
    span.set_status(StatusCode.ERROR, "failed")
    span.end()
    (data,) = ended.spans
    assert data.error == "failed"
    assert [(event.name, dict(event.attributes or {})) for event in data.events] == [
        ("exception", {"exception.type": "ValueError", "exception.message": "no"})
    ]


def test_attributes_are_bounded_in_number_and_length() -> None:
    ended = Ended()
    span = LightSpan("x", HEADER, "", {}, ended.put, max_length=3)
    for number in range(MAX_ATTRIBUTES + 5):
        span.set_attribute(str(number), "long text")
    span.end()
    (data,) = ended.spans
    assert len(data.attributes) == MAX_ATTRIBUTES and data.attributes["0"] == "lon"
