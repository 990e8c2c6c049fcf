"""A span for the hot path: the interface of OpenTelemetry's span, at a fraction of the cost of the SDK's."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from opentelemetry.sdk.trace import Event
from opentelemetry.trace import (
    INVALID_SPAN_CONTEXT,
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
)
from typing_extensions import override

from archon.telemetry.span_data import SpanData, trace_state
from archon.telemetry.trace_parent import TraceParent

MAX_ATTRIBUTES: Final = 128
MAX_EVENTS: Final = 128
"""The SDK's defaults; further ones are left out."""

_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)


class UnrecordedSpan(NonRecordingSpan):
    """The span of another process, in a trace that is not recorded here: spans below it are not recorded either."""

    def __init__(self, traceparent: str, tracestate: str) -> None:
        super().__init__(INVALID_SPAN_CONTEXT)
        self._header, self._tracestate = traceparent, tracestate

    @override
    def get_span_context(self) -> SpanContext:
        parent = TraceParent.parse(self._header)
        if parent is None:
            return INVALID_SPAN_CONTEXT
        return SpanContext(int(parent.trace_id, 16), int(parent.span_id, 16), True, None, trace_state(self._tracestate))


class LightSpan(Span):
    """A span of the kind SERVER that is recorded, below a parent in another process.

    `ended` takes it when it ends; `spans` gives it as data, and is called by the thread that exports.
    """

    size = 1

    def __init__(
        self,
        name: str,
        traceparent: str,
        tracestate: str,
        attributes: dict[str, Any],
        ended: Callable[[LightSpan], object],
        max_length: int | None = None,
    ) -> None:
        """`traceparent` is a valid header; `attributes` are the span's from now on. `max_length` cuts texts that are
        set later."""
        self._name = name
        self._header = traceparent
        self._tracestate = tracestate
        self._attributes = attributes
        self._ended = ended
        self._max_length = max_length
        self._number = random.getrandbits(64) or 1
        self._error: str | None = None
        self._events: list[Event] | None = None
        self._links: list[Link] | None = None
        self._end = 0
        self._start = time.time_ns()

    @override
    def get_span_context(self) -> SpanContext:
        return SpanContext(int(self._header[3:35], 16), self._number, False, _SAMPLED, trace_state(self._tracestate))

    @override
    def is_recording(self) -> bool:
        return not self._end

    @override
    def set_attribute(self, key: str, value: Any) -> None:
        if self._end or (len(self._attributes) >= MAX_ATTRIBUTES and key not in self._attributes):
            return
        self._attributes[key] = value[: self._max_length] if self._max_length and isinstance(value, str) else value

    @override
    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        for key, value in attributes.items():
            self.set_attribute(key, value)

    @override
    def add_event(self, name: str, attributes: Mapping[str, Any] | None = None, timestamp: int | None = None) -> None:
        self._events = self._events or []
        if not self._end and len(self._events) < MAX_EVENTS:
            self._events.append(Event(name, attributes, timestamp))

    @override
    def add_link(self, context: SpanContext, attributes: Mapping[str, Any] | None = None) -> None:
        self._links = self._links or []
        if not self._end and len(self._links) < MAX_EVENTS:
            self._links.append(Link(context, attributes))

    @override
    def update_name(self, name: str) -> None:
        self._name = name

    @override
    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        given = status if isinstance(status, Status) else Status(status, description)
        if not self._end:
            self._error = (given.description or "") if given.status_code is StatusCode.ERROR else None

    @override
    def record_exception(
        self,
        exception: BaseException,
        attributes: Mapping[str, Any] | None = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        own = {"exception.type": type(exception).__qualname__, "exception.message": str(exception)}
        self.add_event("exception", {**own, **(attributes or {})}, timestamp)

    @override
    def end(self, end_time: int | None = None) -> None:
        if not self._end:
            self._end = max(end_time or time.time_ns(), self._start)
            self._ended(self)

    def spans(self) -> Iterator[SpanData]:
        """Yields the span for an exporter; nothing if its trace context is invalid."""
        parent = TraceParent.parse(self._header)
        if parent is not None:
            yield SpanData(
                self._name,
                parent.trace_id,
                f"{self._number:016x}",
                parent.span_id,
                SpanKind.SERVER,
                self._start,
                self._end,
                self._attributes,
                self._tracestate,
                self._error,
                True,
                self._events or (),
                self._links or (),
            )
