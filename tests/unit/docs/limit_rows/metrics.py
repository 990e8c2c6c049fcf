"""Limits of metrics."""

from __future__ import annotations

from typing import Final

from tests.unit.docs.limit_rows.limit import Limit

LIMITS: Final[list[Limit]] = [
    Limit(
        "Combinations of labels of a counter; of a histogram",
        "{archon.telemetry.metrics:MAX_SERIES}; 2,000",
        "Further ones are counted together: `_OTHER`; `otel.metric.overflow`.",
        ["test_further_labels_of_a_counter_are_counted_together"],
    ),
    Limit(
        "Time that the end of a process waits for its last spans, metrics and logs to be exported, all together",
        "{archon.telemetry.otel_settings:END_TIMEOUT|seconds}",
        "They are lost, and the log says so in a line.",
        [
            "test_a_dead_collector_delays_the_end_of_no_process",
            "test_a_collector_that_is_frozen_or_down_delays_no_stop",
        ],
    ),
]
