"""Limits of the command line."""

from __future__ import annotations

from typing import Final

from tests.unit.docs.limit_rows.limit import Limit

LIMITS: Final[list[Limit]] = [
    Limit(
        "Evals: cases of a data set, and characters of one; trials of an eval; runs at a time; seconds of a trial by "
        "default; characters of an answer that results keep",
        "{archon_mesh.evals.case:MAX_CASES}, {archon_mesh.evals.case:MAX_LINE}; "
        "{archon_mesh.evals.run_eval:MAX_TRIALS}; {archon_mesh.evals.run_eval:MAX_PARALLEL}; "
        "{archon_mesh.evals.case:TIMEOUT|seconds}; {archon_mesh.evals.report:MAX_ANSWER}",
        "`INVALID_ARGUMENT`; the trial fails; the rest of the answer is left out.",
        ["test_functions_are_evaluated_without_a_mesh", "test_a_wrong_data_set_is_refused_with_line_and_key"],
    ),
    Limit(
        "The playground: answers to a variant, calls at a time; the file of a variant; a request that is sent again",
        "{archon_mesh.playground.played:MAX_REPEAT}, {archon_mesh.playground.played:PARALLEL}; "
        "{archon_mesh.playground.variant_file:MAX_BYTES|bytes}; "
        "{archon_mesh.playground.sent_request:MAX_BODY|characters}",
        "`INVALID_ARGUMENT`; the next call waits; `FAILED_PRECONDITION`.",
        [
            "test_an_argument_out_of_range_is_refused",
            "test_no_more_calls_run_at_a_time_than_wanted",
            "test_a_record_that_repeats_a_part_is_bounded",
            "test_a_file_that_is_too_large_is_refused",
        ],
    ),
    Limit(
        "Records of a run in progress that `archon show` reads",
        "{archon_services.cli.commands.show:MAX_CALLS}",
        "Further calls are not counted.",
        ["test_calls_of_an_attempt_are_shown_before_it_ends"],
    ),
    Limit(
        "`archon trace`: records that are read; rows of the text; rows of the SVG; characters of a line",
        "{archon_services.cli.commands.trace:MAX_CALLS}; {archon_services.reports.waterfall.text:MAX_ROWS}; "
        "{archon_services.reports.waterfall.svg:MAX_ROWS}; {archon_services.reports.waterfall.text:MAX_WIDTH}",
        "A note says so; the JSON has all spans.",
        [
            "test_rows_beyond_the_limit_are_counted",
            "test_rows_beyond_the_limit_are_left_out",
            "test_no_line_is_wider_than_the_width",
        ],
    ),
    Limit(
        "`archon prompts`: messages of a prompt that are compared with each other",
        "{archon_services.cli.render.prompt_sections:MAX_COMPARED}",
        "The others are not reported as duplicates.",
        ["test_messages_beyond_the_limit_are_not_compared"],
    ),
]
