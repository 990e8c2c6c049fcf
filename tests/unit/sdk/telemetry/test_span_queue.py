"""The queue of spans: it never waits, has bounds, and outlives a failing exporter."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from archon.telemetry import export_failures, span_queue
from archon.telemetry.span_data import SpanData
from archon.telemetry.span_queue import SpanQueue
from tests.unit.sdk.telemetry.test_otlp import data

RESOURCE = Resource({"service.name": "a"})


class Exporter(SpanExporter):
    """Keeps what it gets; `gate` holds it up while it is clear, `error` is raised."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.error: Exception | None = None
        self.refuses = False
        self.entered = threading.Event()
        self.closed = False

    def export(self, spans: Sequence[Any]) -> SpanExportResult:
        self.entered.set()
        assert self.gate.wait(30)
        if self.error is not None:
            raise self.error
        if self.refuses:
            return SpanExportResult.FAILURE
        self.batches.append([span.name for span in spans])
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        self.closed = True


class Named:
    """An entry with one span."""

    def __init__(self, name: str, size: int = 1) -> None:
        self.name, self.size = name, size

    def spans(self) -> Iterator[SpanData]:
        yield data(name=self.name)


Make = Callable[..., SpanQueue]


@pytest.fixture
def exporter() -> Exporter:
    return Exporter()


@pytest.fixture
def make(exporter: Exporter, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes a queue with variables of the environment; it ends with the test."""
    made: list[SpanQueue] = []

    def make(**variables: str) -> SpanQueue:
        for name, value in {"OTEL_BSP_SCHEDULE_DELAY": "60000", **variables}.items():
            monkeypatch.setenv(name, value)
        made.append(SpanQueue(exporter, RESOURCE, encoded=False))
        return made[-1]

    yield make
    exporter.gate.set()
    for queue in made:
        queue.shutdown()


def test_the_last_spans_are_exported_at_the_end(make: Make, exporter: Exporter) -> None:
    queue = make()
    queue.put(Named("a"))
    queue.put(Named("b"))
    queue.shutdown()
    assert (exporter.batches, exporter.closed, queue.dropped) == ([["a", "b"]], True, 0)
    queue.put(Named("late"))
    assert queue.dropped == 1


def test_a_full_batch_is_exported_at_once(make: Make, exporter: Exporter) -> None:
    queue = make(OTEL_BSP_MAX_EXPORT_BATCH_SIZE="2")
    queue.put(Named("a"))
    queue.put(Named("b"))
    assert exporter.entered.wait(30)
    assert queue.force_flush(30_000)
    assert exporter.batches == [["a", "b"]]


def test_a_stuck_exporter_makes_it_drop_not_wait(
    make: Make, exporter: Exporter, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_failures, "_reported_at", float("-inf"))
    queue = make(OTEL_BSP_MAX_QUEUE_SIZE="3", OTEL_BSP_MAX_EXPORT_BATCH_SIZE="1")
    exporter.gate.clear()
    queue.put(Named("held"))
    assert exporter.entered.wait(30)
    for number in range(5):
        queue.put(Named(str(number)))
    assert queue.dropped == 2
    with caplog.at_level(logging.WARNING, export_failures.__name__):
        exporter.gate.set()
        queue.shutdown()
    assert [name for batch in exporter.batches for name in batch] == ["held", "0", "1", "2"]
    assert "2 spans were dropped" in caplog.text


def test_it_is_bounded_in_bytes(make: Make, exporter: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_queue, "MAX_BYTES", 100)
    queue = make()
    queue.put(Named("a", size=100))
    queue.put(Named("b"))
    assert queue.dropped == 1
    assert queue.force_flush(30_000)
    queue.put(Named("c"))
    queue.shutdown()
    assert exporter.batches == [["a"], ["c"]]


def test_it_outlives_an_exporter_that_raises(make: Make, exporter: Exporter) -> None:
    queue = make()
    exporter.error = RuntimeError("boom")
    queue.put(Named("a"))
    assert queue.force_flush(30_000)
    exporter.error = None
    queue.put(Named("b"))
    queue.shutdown()
    assert (exporter.batches, queue.dropped) == ([["b"]], 1)


def test_while_exports_fail_few_entries_wait(make: Make, exporter: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_queue, "MAX_PROBES", 3)
    queue = make(OTEL_BSP_MAX_QUEUE_SIZE="100", OTEL_BSP_MAX_EXPORT_BATCH_SIZE="3")
    exporter.refuses = True
    queue.put(Named("a"))
    assert queue.force_flush(30_000)
    assert queue.dropped == 1, "what the exporter refuses is counted"
    exporter.entered.clear()
    for name in "bcde":
        queue.put(Named(name))
    assert queue.dropped == 2
    assert not queue.has_room()
    assert not exporter.entered.is_set(), "they wait for the next try"
    exporter.refuses = False
    assert queue.force_flush(30_000)
    for name in "fghi":
        queue.put(Named(name))
    queue.shutdown()
    assert [name for batch in exporter.batches for name in batch] == list("bcdfghi")


def test_it_outlives_an_entry_without_spans(make: Make, exporter: Exporter) -> None:
    class Broken(Named):
        def spans(self) -> Iterator[SpanData]:
            raise ValueError("no spans")

    queue = make()
    queue.put(Broken("a"))
    queue.put(Named("b"))
    queue.shutdown()
    assert (exporter.batches, queue.dropped) == ([["b"]], 1)


def test_an_invalid_number_in_a_variable_is_logged(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, span_queue.__name__):
        make(OTEL_BSP_MAX_QUEUE_SIZE="many")
    assert "OTEL_BSP_MAX_QUEUE_SIZE is 'many'" in caplog.text
