"""The queue between those who end spans and the thread that exports them."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final, Protocol

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from typing_extensions import override

from archon.telemetry import export_failures
from archon.telemetry.otlp import encode, encode_readable
from archon.telemetry.span_data import SpanData

_log = logging.getLogger(__name__)

DELAY: Final = 1.0
"""Seconds between exports, unless OTEL_BSP_SCHEDULE_DELAY is set: a person who debugs waits for the trace."""

MAX_QUEUED: Final = 2048
"""Entries that wait, unless OTEL_BSP_MAX_QUEUE_SIZE is set; further ones are dropped and counted."""

MAX_BYTES: Final = 8 * 1024 * 1024
"""Bytes that the entries hold together."""

BATCH: Final = 512
"""Spans per export, unless OTEL_BSP_MAX_EXPORT_BATCH_SIZE is set."""

RETRY_DELAY: Final = 5.0
"""Seconds between exports while they fail, unless the usual delay is longer."""

MAX_PROBES: Final = 16
"""Entries that wait while exports fail."""


class Entry(Protocol):
    """Ended work that becomes spans when it is exported. `size` is in bytes, or 1 if it holds little."""

    @property
    def size(self) -> int: ...

    def spans(self) -> Iterable[SpanData]: ...


class SpanQueue(SpanProcessor):
    """Takes entries without waiting, as OpenTelemetry's BatchSpanProcessor does, bounded in bytes too, and at no cost
    for entries that are dropped because the exporter is stuck. While exports fail, it keeps a few entries to try with.

    The thread that exports makes spans of the entries, many at a time, at a third of the cost between the steps of the
    event loop. With `encoded` the exporter takes EncodedSpans, otherwise the SDK's. The thread is a daemon, because an
    export may take as long as the network lets it.
    """

    def __init__(self, exporter: SpanExporter, resource: Resource, *, encoded: bool, batch: int = BATCH) -> None:
        self.exporter = exporter
        self.resource = resource
        self.dropped = 0
        """Entries that found the queue full, and spans whose export failed."""
        self._encoded = encoded
        self._delay = _number("OTEL_BSP_SCHEDULE_DELAY", DELAY * 1000) / 1000
        self._limit = int(_number("OTEL_BSP_MAX_QUEUE_SIZE", MAX_QUEUED))
        self._batch = max(1, min(self._limit, int(_number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", batch))))
        self._queue: deque[ReadableSpan | Entry] = deque()
        self._bytes = 0
        self._wake = threading.Event()
        self._idle = threading.Event()
        self._stopping = False
        self._failing = False
        """Whether the last export failed."""
        self._reported = 0
        self._thread = threading.Thread(target=self._run, name="export-spans", daemon=True)
        self._thread.start()

    @override
    def on_end(self, span: ReadableSpan) -> None:
        if span.context is not None and span.context.trace_flags.sampled:
            self._put(span, 1)

    def put(self, entry: Entry) -> None:
        """Takes something sampled that has ended."""
        self._put(entry, entry.size)

    def has_room(self) -> bool:
        """Returns whether an entry would be taken now. If not, one counts as dropped: the caller need not make it."""
        limit = min(MAX_PROBES, self._limit) if self._failing else self._limit
        if len(self._queue) < limit and self._bytes < MAX_BYTES and not self._stopping:
            return True
        self.dropped += 1
        return False

    def _put(self, item: ReadableSpan | Entry, size: int) -> None:
        if not self.has_room():
            return
        self._bytes += size
        self._queue.append(item)
        if len(self._queue) == self._batch and not self._failing:
            self._wake.set()

    @override
    def shutdown(self) -> None:
        """Exports the queue, and ends the thread. Blocks until the exporter has answered; exporters of
        `archon.telemetry.otlp` try once."""
        self._stopping = True
        if (end_retries := getattr(self.exporter, "end_retries", None)) is not None:
            end_retries()
        self._wake.set()
        self._thread.join()
        self.exporter.shutdown()

    @override
    def force_flush(self, timeout_millis: int = 30000) -> bool:
        self._idle.clear()
        self._wake.set()
        return self._idle.wait(timeout_millis / 1000)

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(max(self._delay, RETRY_DELAY) if self._failing else self._delay)
            self._wake.clear()
            self._export_all()
            self._report()
        self._export_all()
        self._report()

    def _export_all(self) -> None:
        spans: list[Any] = []
        for span in self._taken():
            spans.append(span)
            if len(spans) >= self._batch:
                self._export(spans)
                spans = []
        if spans:
            self._export(spans)
        self._idle.set()

    def _taken(self) -> Iterator[Any]:
        """Takes everything out of the queue, in the exporter's form."""
        queue = self._queue
        while queue:
            item = queue.popleft()
            if isinstance(item, ReadableSpan):
                self._bytes -= 1
                yield encode_readable(item) if self._encoded else item
                continue
            self._bytes -= item.size
            try:
                for span in item.spans():
                    yield encode(span, self.resource) if self._encoded else span.to_readable(self.resource)
            except Exception:  # noqa: BLE001 - the thread must survive it
                self.dropped += 1
                _log.exception("an entry has no spans")

    def _export(self, spans: list[Any]) -> None:
        result = SpanExportResult.FAILURE
        try:
            result = self.exporter.export(spans)
        except Exception:  # noqa: BLE001 - the thread must survive it
            _log.exception("%d spans could not be exported", len(spans))
        self._failing = result is not SpanExportResult.SUCCESS
        if self._failing:
            self.dropped += len(spans)

    def _report(self) -> None:
        dropped = self.dropped
        if dropped > self._reported and export_failures.report(
            "%d spans were dropped: the exporter is too slow", dropped - self._reported
        ):
            self._reported = dropped


def _number(variable: str, default: float) -> float:
    try:
        value = float(os.environ.get(variable) or default)
    except ValueError:
        value = 0.0
    if value > 0:
        return value
    _log.warning("%s is %r, must be a positive number: %g is used", variable, os.environ[variable], default)
    return default
