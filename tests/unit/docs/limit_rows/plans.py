"""Limits of plans."""

from __future__ import annotations

from typing import Final

from tests.unit.docs.limit_rows.limit import Limit

LIMITS: Final[list[Limit]] = [
    Limit(
        "Members of a swarm; bytes of the results in its result",
        "{archon_mesh.planning.swarm:MAX_SWARM}; {archon_mesh.planning.swarm:MAX_SHOWN_BYTES|bytes}",
        "`INVALID_ARGUMENT`; further results are left out, and their items listed.",
        ["test_wrong_options_are_refused", "test_results_that_are_too_large_together_are_left_out"],
    ),
    Limit(
        "Characters of a planner's reply; its subtasks that are read",
        "{archon_mesh.planning.parse:MAX_REPLY}; {archon_mesh.planning.parse:MAX_READ_SUBTASKS}",
        "The plan fails: `MalformedPlan`.",
        ["test_what_is_no_plan_is_refused"],
    ),
    Limit(
        "Subtasks of a planner's plan; of a plan at all",
        "{archon_mesh.engine.plan.faults:MAX_SUBTASKS}; {archon_mesh.engine.plan.faults:MAX_PLAN_SUBTASKS}",
        "The planner is asked for fewer, then subtasks are merged.",
        ["test_too_many_steps_of_one_tool_are_merged", "test_too_many_steps_of_all_kinds_end_in_one_step"],
    ),
    Limit(
        "Subtasks that are executed at the same time",
        "{archon_mesh.planning.plan_execution:MAX_PARALLEL}; `max_parallel`",
        "Further subtasks wait.",
        ["test_independent_subtasks_run_at_the_same_time"],
    ),
    Limit(
        "Attempts at a subtask; time of an attempt",
        "{archon_mesh.planning.attempts:MAX_ATTEMPTS}, `max_attempts`; "
        "{archon_mesh.planning.attempts:TIMEOUT|seconds}, `timeout`",
        "The subtask fails.",
        ["test_a_failed_attempt_is_repeated_with_its_problem", "test_a_slow_attempt_fails"],
    ),
    Limit(
        "A value in the journal of a plan: the result of a subtask",
        "{archon_mesh.planning.records:MAX_VALUE_BYTES|bytes}",
        "The subtask fails.",
        ["test_a_result_that_is_too_large_fails_its_subtask"],
    ),
    Limit(
        "Replans of a task",
        "{archon_mesh.engine.plan.replan:MAX_REPLANS}",
        "The plan fails: `PlanFailed`.",
        ["test_after_three_replans_the_plan_fails_with_a_suggestion"],
    ),
    Limit(
        "Checks of a task's alignment with its query; time of one; characters of what it finds",
        "{archon_mesh.engine.plan.replan:MAX_ALIGNMENT_CHECKS}, `max_alignment_checks` of `ReplanPolicy`; "
        "{archon_mesh.planning.alignment:ALIGNMENT_TIMEOUT|seconds}; {archon_mesh.engine.plan.replan:MAX_PROBLEM}",
        "No further check is made; the plan counts as aligned; the text is cut.",
        [
            "test_checks_of_a_task_are_bounded",
            "test_a_check_that_never_ends_counts_as_aligned",
            "test_a_long_problem_is_cut_in_the_reason",
        ],
    ),
    Limit(
        "Characters of results that such a check sees; of one result; steps",
        "{archon_mesh.engine.plan.alignment:MAX_RESULTS_SHOWN}; {archon_mesh.engine.plan.alignment:MAX_RESULT_SHOWN}; "
        "{archon_mesh.engine.plan.alignment:MAX_STEPS_SHOWN}",
        "Results are cut, the oldest ones first; of further steps only the number is shown.",
        ["test_what_the_model_sees_is_bounded"],
    ),
    Limit(
        "Characters of a result; of the arguments of a subtask with their templates filled; levels of arguments",
        "{archon_mesh.planning.check:MAX_RESULT}; {archon_mesh.engine.plan.templates:MAX_CHARACTERS}; "
        "{archon_mesh.engine.plan.templates:MAX_DEPTH}",
        "The subtask fails.",
        ["test_a_result_is_checked_by_rules", "test_arguments_that_grow_too_large_are_refused"],
    ),
]
