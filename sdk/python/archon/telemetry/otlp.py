"""OTLP with spans that are encoded when they end, by those who end them.

The spans of the hot path are written in protobuf's wire format here, at a fifth of the cost of the packages' encoder;
whatever is rare (events, links, lists) and the SDK's own spans are left to that. Requests are sent by OpenTelemetry's
exporters. https://opentelemetry.io/docs/specs/otlp/, opentelemetry/proto/trace/v1/trace.proto
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import pack
from typing import Any, Final, NamedTuple

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import INVALID_SPAN_CONTEXT, SpanKind
from typing_extensions import override

from archon.telemetry import export_failures, names
from archon.telemetry.span_data import SCOPE, SpanData
from archon.wire import encode_varint

_KINDS: Final = {
    SpanKind.INTERNAL: b"\x30\x01",
    SpanKind.SERVER: b"\x30\x02",
    SpanKind.CLIENT: b"\x30\x03",
    SpanKind.PRODUCER: b"\x30\x04",
    SpanKind.CONSUMER: b"\x30\x05",
}
_LOCAL: Final = b"\x85\x01" + pack("<I", 0x100)
_REMOTE: Final = b"\x85\x01" + pack("<I", 0x300)
_NO_ERROR: Final = b"\x7a\x00"
_MAX_CACHED: Final = 64
"""Characters of a value that is cached: names and states are short, contents are not."""

_IDS: Final = frozenset({names.RUN_ID, names.TASK_ID, names.CONVERSATION_ID})
"""Attributes whose values are not cached, because few spans share them."""


class EncodedSpan(NamedTuple):
    """A span as the field `spans` of ScopeSpans, with its resource and scope."""

    resource: Any
    scope: Any
    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)


class OtlpHttpExporter(HttpExporter):
    """OpenTelemetry's exporter for spans that are encoded already."""

    @override
    def export(self, spans: Sequence[Any]) -> SpanExportResult:
        result = self._client.export(request_of(spans))
        if result.success:
            return SpanExportResult.SUCCESS
        export_failures.report_reason(result.error or f"{result.status_code} {result.reason}")
        return SpanExportResult.FAILURE

    def end_retries(self) -> None:
        """Makes exports fail at their first attempt from now on."""
        self._client._shutdown_event.set()


class OtlpGrpcExporter(GrpcExporter):
    """OpenTelemetry's exporter for spans that are encoded already."""

    @override
    def _translate_data(self, data: Sequence[Any]) -> ExportTraceServiceRequest:
        return ExportTraceServiceRequest.FromString(request_of(data))

    def end_retries(self) -> None:
        """Makes exports fail at their first attempt from now on."""
        self._shutdown_in_progress.set()


def request_of(spans: Sequence[EncodedSpan]) -> bytes:
    """Returns a serialised ExportTraceServiceRequest."""
    groups: dict[tuple[int, int], tuple[EncodedSpan, list[bytes]]] = {}
    for span in spans:
        key = id(span.resource), id(span.scope)  # a resource is hashed by its JSON
        if (group := groups.get(key)) is None:
            group = groups[key] = span, []
        group[1].append(span.data)
    request = bytearray()
    for first, encoded in groups.values():
        head, scope_head, schema = _heads(first.resource, first.scope)
        request += _field(0x0A, head + _field(0x12, scope_head + b"".join(encoded)) + schema)
    return bytes(request)


def encode_readable(span: ReadableSpan) -> EncodedSpan:
    """Encodes a span of the SDK."""
    data = encode_spans([span]).resource_spans[0].scope_spans[0].spans[0].SerializeToString()
    return EncodedSpan(span.resource, span.instrumentation_scope, _field(0x12, data))


def encode(span: SpanData, resource: Resource) -> EncodedSpan:
    """Encodes a span of the hot path."""
    if span.events or span.links:
        return encode_readable(span.to_readable(resource))
    out = [b"\x0a\x10", bytes.fromhex(span.trace_id), b"\x12\x08", bytes.fromhex(span.span_id)]
    if span.tracestate:
        out.append(_field(0x1A, span.tracestate.encode()))
    if span.parent_id:
        out += (b"\x22\x08", bytes.fromhex(span.parent_id))
    out += (_name(span.name), _KINDS[span.kind], pack("<BQBQ", 0x39, span.start, 0x41, span.end))
    for key, value in span.attributes.items():
        kind = type(value)
        if kind is str and key in _IDS:
            out.append(_id(key, value))
        elif kind is str and len(value) <= _MAX_CACHED:
            out.append(_text(key, value))
        elif kind is str or kind is int or kind is float or kind is bool:
            out.append(_attribute(key, value))
        else:
            return encode_readable(span.to_readable(resource))
    if span.error is None:
        out.append(_NO_ERROR)
    else:
        out.append(_field(0x7A, (_field(0x12, span.error.encode()) if span.error else b"") + b"\x18\x02"))
    out.append(_REMOTE if span.remote_parent else _LOCAL)
    return EncodedSpan(resource, SCOPE, _field(0x12, b"".join(out)))


@lru_cache(maxsize=64)
def _heads(resource: Any, scope: Any) -> tuple[bytes, bytes, bytes]:
    """Returns the bytes before the spans of a resource and of a scope in a request, and the bytes after them."""
    empty = ReadableSpan("", INVALID_SPAN_CONTEXT, resource=resource, instrumentation_scope=scope)
    (group,) = encode_spans([empty]).resource_spans
    (scoped,) = group.scope_spans
    del scoped.spans[:]
    schema = _field(0x1A, group.schema_url.encode()) if group.schema_url else b""
    return _field(0x0A, group.resource.SerializeToString()), scoped.SerializeToString(), schema


@lru_cache(maxsize=1024)
def _name(name: str) -> bytes:
    return _field(0x2A, name.encode())


@lru_cache(maxsize=4096)
def _text(key: str, value: str) -> bytes:
    return _attribute(key, value)


def _id(key: str, value: str) -> bytes:
    """Returns an attribute whose value is short."""
    content = value.encode("utf-8", "replace")
    head, size = _key(key), len(content)
    if len(head) + size > 123:
        return _attribute(key, value)
    return b"\x4a%c%b\x12%c\x0a%c%b" % (len(head) + size + 4, head, size + 2, size, content)


def _attribute(key: str, value: Any) -> bytes:
    if isinstance(value, bool):
        content = b"\x10\x01" if value else b"\x10\x00"
    elif isinstance(value, int):
        content = b"\x18" + encode_varint(value & 0xFFFF_FFFF_FFFF_FFFF)
    elif isinstance(value, float):
        content = pack("<Bd", 0x21, value)
    else:
        content = _field(0x0A, value.encode("utf-8", "replace"))
    return _field(0x4A, _key(key) + _field(0x12, content))


@lru_cache(maxsize=1024)
def _key(key: str) -> bytes:
    return _field(0x0A, key.encode())


def _field(tag: int, content: bytes) -> bytes:
    """Returns a length-delimited field."""
    size = len(content)
    return bytes((tag, size)) + content if size < 128 else bytes((tag,)) + encode_varint(size) + content
