"""Limits of logs."""

from __future__ import annotations

from typing import Final

from tests.unit.docs.limit_rows.limit import Limit

LIMITS: Final[list[Limit]] = [
    Limit(
        "Lines that wait for the reader of a pipe or a terminal",
        "{archon.telemetry.logs.queued:MAX_LINES}, {archon.telemetry.logs.queued:MAX_BYTES|bytes}",
        "Further lines are dropped and counted.",
        [
            "test_the_lines_that_wait_are_bounded_in_count",
            "test_a_reader_that_stops_loses_lines_and_stops_no_one",
        ],
    ),
    Limit(
        "Time that the end of a process waits for its last lines",
        "{archon.telemetry.logs.queued:FLUSH_TIMEOUT|seconds}",
        "The lines are lost.",
        ["test_the_end_of_a_process_does_not_wait_for_a_stopped_reader"],
    ),
    Limit(
        "Time that the end of a process waits for the records that it has logged meanwhile",
        "{archon.telemetry.otel_settings:END_TIMEOUT|seconds}; {archon.telemetry.logs.otlp:CLOSE_TIMEOUT|seconds} if "
        "the collector has not answered before",
        "The records are lost.",
        ["test_a_collector_that_does_not_answer_delays_no_one"],
    ),
    Limit(
        "A message or another value of a line; a stack; fields that a program adds",
        "{archon.telemetry.logs.fields:MAX_TEXT} and {archon.telemetry.logs.fields:MAX_STACK} characters; "
        "{archon.telemetry.logs.fields:MAX_EXTRA}",
        "The rest is left out.",
        ["test_texts_stacks_and_fields_of_a_line_are_bounded"],
    ),
    Limit(
        "Log of a process of `archon up`",
        "{archon_services.local_mesh.logs:MAX_LOG|bytes}, and as much that was before",
        "It begins anew, and what it had replaces the log before it (`.old.log`).",
        ["test_a_log_above_its_limit_begins_anew"],
    ),
    Limit(
        "The part of each log that `archon logs` reads",
        "{archon_services.cli.commands.logs:TAIL_BYTES|bytes} at the end",
        "Earlier lines are not printed.",
        ["test_only_the_end_of_a_large_log_is_read"],
    ),
]
