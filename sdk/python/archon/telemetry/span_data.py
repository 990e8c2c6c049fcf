"""A span that has ended, as plain data, which the hot path makes in place of the SDK's objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from archon.telemetry import names

SCOPE: Final = InstrumentationScope(names.SCOPE)
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)


@dataclass(slots=True)
class SpanData:
    """`trace_id` has 32 hexadecimal digits, `span_id` and `parent_id` 16; the latter is empty for a root. Times are in
    nanoseconds since the Unix epoch. A span without an `error` has no status."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: SpanKind
    start: int
    end: int
    attributes: Mapping[str, Any]
    tracestate: str = ""
    error: str | None = None
    remote_parent: bool = False
    events: Sequence[Event] = ()
    links: Sequence[Link] = ()

    def context_of(self, span_id: str, *, remote: bool = False) -> SpanContext:
        """Returns the context of another span of the same trace."""
        return SpanContext(int(self.trace_id, 16), int(span_id, 16), remote, _SAMPLED, trace_state(self.tracestate))

    def to_readable(self, resource: Resource) -> ReadableSpan:
        """Returns the SDK's form of the span."""
        return ReadableSpan(
            self.name,
            self.context_of(self.span_id),
            self.context_of(self.parent_id, remote=self.remote_parent) if self.parent_id else None,
            resource,
            dict(self.attributes),
            self.events,
            self.links,
            self.kind,
            None,
            Status(StatusCode.UNSET) if self.error is None else Status(StatusCode.ERROR, self.error),
            self.start,
            self.end,
            SCOPE,
        )


@lru_cache(maxsize=64)
def trace_state(header: str) -> TraceState:
    """Parses the header `tracestate`."""
    return TraceState.from_header([header]) if header else TraceState()
