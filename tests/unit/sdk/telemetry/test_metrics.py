"""The recorder: counters, gauges and histograms as a reader of OpenTelemetry's SDK collects them."""

from __future__ import annotations

import re
import threading

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider

from archon.telemetry import metrics
from archon.telemetry.light_span import LightSpan
from archon.telemetry.metrics import METRICS, Kind, Recorder
from tests.fixtures.metrics import points, reader, recorder, values

__all__ = ["reader", "recorder"]


def test_a_counter_counts_by_its_labels(recorder: Recorder, reader: InMemoryMetricReader) -> None:
    recorder.add(metrics.ATTEMPTS_DISPATCHED, ("designer",))
    recorder.add(metrics.ATTEMPTS_DISPATCHED, ("designer",), 2)
    recorder.add(metrics.ATTEMPTS_DISPATCHED, ("implementer",))
    assert values(reader, metrics.ATTEMPTS_DISPATCHED) == {("designer",): 3, ("implementer",): 1}


def test_a_counter_that_counted_nothing_is_exported_as_0(recorder: Recorder, reader: InMemoryMetricReader) -> None:
    assert values(reader, metrics.RUNS_SUBMITTED) == {}
    recorder.add(metrics.RUNS_SUBMITTED, (), 0)
    assert values(reader, metrics.RUNS_SUBMITTED) == {(): 0}


def test_further_labels_of_a_counter_are_counted_together(
    recorder: Recorder, reader: InMemoryMetricReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "MAX_SERIES", 2)
    for tool in ("one", "two", "three", "four", "one"):
        recorder.add(metrics.TOOL_CALLS, (tool, "success"))
    assert values(reader, metrics.TOOL_CALLS) == {
        ("one", "success"): 2,
        ("two", "success"): 1,
        (metrics.OTHER, metrics.OTHER): 2,
    }


def test_a_gauge_is_read_until_its_source_ends(recorder: Recorder, reader: InMemoryMetricReader) -> None:
    end = recorder.observe(metrics.RUNS, lambda: [(("running",), 2), (("paused",), 1)])
    recorder.observe(metrics.RUNS, lambda: [(("running",), 3)])
    assert values(reader, metrics.RUNS) == {("running",): 5, ("paused",): 1}
    end()
    end()
    assert values(reader, metrics.RUNS) == {("running",): 3}


def test_of_several_ages_the_largest_is_exported(recorder: Recorder, reader: InMemoryMetricReader) -> None:
    for age in (1.0, 7.0, 3.0):
        recorder.observe(metrics.OUTBOX_AGE, lambda age=age: [((), age)])  # type: ignore[misc]
    assert values(reader, metrics.OUTBOX_AGE) == {(): 7.0}


def test_a_source_that_raises_hides_no_other(
    recorder: Recorder, reader: InMemoryMetricReader, caplog: pytest.LogCaptureFixture
) -> None:
    recorder.observe(metrics.AGENT_SLOTS, lambda: [(("designer",), 1 // 0)])
    recorder.observe(metrics.AGENT_SLOTS, lambda: [(("implementer",), 8)])
    assert values(reader, metrics.AGENT_SLOTS) == {("implementer",): 8}
    assert "archon.agent.slots cannot be read" in caplog.text


def test_collecting_while_another_thread_counts_loses_nothing(recorder: Recorder, reader: InMemoryMetricReader) -> None:
    number = 20_000

    def count() -> None:
        for each in range(number):
            recorder.add(metrics.ATTEMPTS_DISPATCHED, (f"role-{each % 500}",))

    counting = threading.Thread(target=count)
    counting.start()
    while counting.is_alive():
        assert sum(values(reader, metrics.ATTEMPTS_DISPATCHED).values()) <= number
    counting.join()
    assert sum(values(reader, metrics.ATTEMPTS_DISPATCHED).values()) == number


def test_a_histogram_has_the_buckets_of_its_metric(recorder: Recorder, reader: InMemoryMetricReader) -> None:
    for seconds in (0.0004, 0.003, 0.003, 9.0):
        recorder.record(metrics.COMMIT_DURATION, seconds)
    [point] = points(reader, metrics.COMMIT_DURATION)
    assert point.explicit_bounds == metrics.COMMIT_DURATION.buckets
    assert (point.bucket_counts[0], point.bucket_counts[3], point.bucket_counts[-1]) == (1, 2, 1)


def test_an_empty_label_is_left_out(recorder: Recorder, reader: InMemoryMetricReader) -> None:
    recorder.record(metrics.MODEL_DURATION, 1.0, ("chat", "openai", "gpt", "designer", ""))
    [point] = points(reader, metrics.MODEL_DURATION)
    assert "error.type" not in point.attributes
    assert point.attributes["gen_ai.request.model"] == "gpt"


def test_a_value_within_a_span_has_its_trace_as_exemplar(recorder: Recorder, reader: InMemoryMetricReader) -> None:
    with TracerProvider().get_tracer("test").start_as_current_span("a call") as span:
        recorder.record(metrics.TOOL_DURATION, 0.2, ("calculator",))
    [point] = points(reader, metrics.TOOL_DURATION)
    assert [exemplar.trace_id for exemplar in point.exemplars] == [span.get_span_context().trace_id]


def test_names_and_labels_are_those_of_the_conventions() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS) > 25
    for metric in METRICS:
        assert re.fullmatch(r"(archon|gen_ai|rpc)(\.[a-z_]+)+", metric.name)
        assert all(re.fullmatch(r"(archon|gen_ai|rpc|error)(\.[a-z_]+)+", label) for label in metric.labels)
        assert not any(label.endswith((".run.id", ".task.id", "instance.id")) for label in metric.labels)
        assert bool(metric.buckets) == (metric.kind is Kind.HISTOGRAM)
        assert list(metric.buckets) == sorted(metric.buckets)


def test_a_process_without_an_exporter_has_no_recorder() -> None:
    assert metrics.recorder() is None


def test_a_value_within_the_span_of_a_task_has_its_trace_as_exemplar(
    recorder: Recorder, reader: InMemoryMetricReader
) -> None:
    span = LightSpan("invoke_agent designer", f"00-{'ab' * 16}-{'cd' * 8}-01", "", {}, lambda ended: None)
    with trace.use_span(span):
        recorder.record(metrics.CYCLE_DURATION, 0.2, ("designer",))
    [point] = points(reader, metrics.CYCLE_DURATION)
    assert [exemplar.trace_id for exemplar in point.exemplars] == [int("ab" * 16, 16)]
