"""The encoder of spans, compared with that of OpenTelemetry's packages."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanKind

from archon.telemetry.otlp import encode, encode_readable, request_of
from archon.telemetry.span_data import SpanData

RESOURCE = Resource({"service.name": "a", "service.instance.id": "b"})
TRACE, SPAN, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00f067aa0ba902b7"

texts = st.text(max_size=300)
attributes = st.dictionaries(
    st.text(min_size=1, max_size=30),
    st.one_of(texts, st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.booleans()),
    max_size=8,
)
times = st.integers(0, 2**63)


def data(**more: Any) -> SpanData:
    """A span without anything optional, and with `more`."""
    return SpanData(
        **{
            "name": "invoke_agent a",
            "trace_id": TRACE,
            "span_id": SPAN,
            "parent_id": "",
            "kind": SpanKind.SERVER,
            "start": 1,
            "end": 2,
            "attributes": {},
            **more,
        }
    )


def agrees(*spans: SpanData) -> bool:
    """Whether both encoders make the same request of the spans."""
    ours = ExportTraceServiceRequest.FromString(request_of([encode(span, RESOURCE) for span in spans]))
    return bool(ours == encode_spans([span.to_readable(RESOURCE) for span in spans]))


@given(
    name=texts,
    parent=st.sampled_from(["", PARENT]),
    kind=st.sampled_from(list(SpanKind)),
    start=times,
    end=times,
    attributes=attributes,
    tracestate=st.sampled_from(["", "a=1,b=2"]),
    error=st.one_of(st.none(), texts),
    remote=st.booleans(),
)
def test_it_writes_what_the_packages_write(
    name: str,
    parent: str,
    kind: SpanKind,
    start: int,
    end: int,
    attributes: dict[str, Any],
    tracestate: str,
    error: str | None,
    remote: bool,
) -> None:
    span = SpanData(name, TRACE, SPAN, parent, kind, start, end, attributes, tracestate, error, remote and bool(parent))
    assert agrees(span)


def test_events_links_and_lists_are_left_to_the_packages() -> None:
    other = data().context_of(PARENT)
    assert agrees(
        data(events=[Event("archon.run.paused", {"a": "b"}, 3)]),
        data(links=[Link(other, {"archon.link": "retried"})]),
        data(attributes={"list": ["a", "b"]}),
    )


def test_spans_of_several_scopes_and_resources_are_grouped() -> None:
    memory = InMemorySpanExporter()
    provider = TracerProvider(resource=RESOURCE)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    for scope in ("one", "two"):
        with provider.get_tracer(scope).start_as_current_span("x", attributes={"a": 1}):
            pass
    first, second = memory.get_finished_spans()
    other = Resource({"service.name": "other"})
    encoded = [encode_readable(first), encode(data(), RESOURCE), encode_readable(second), encode(data(), other)]
    request = ExportTraceServiceRequest.FromString(request_of(encoded))
    groups = [
        (group.resource.attributes[0].value.string_value, scoped.scope.name, len(scoped.spans))
        for group in request.resource_spans
        for scoped in group.scope_spans
    ]
    assert sorted(groups) == [("a", "archon", 1), ("a", "one", 1), ("a", "two", 1), ("other", "archon", 1)]
