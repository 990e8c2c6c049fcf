"""The span of the hot path keeps to OpenTelemetry's API."""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from archon.telemetry.light_span import MAX_ATTRIBUTES, LightSpan
from archon.telemetry.span_data import SpanData

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
