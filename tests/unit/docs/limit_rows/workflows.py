"""Limits of workflows."""

from __future__ import annotations

from typing import Final

from tests.unit.docs.limit_rows.limit import Limit

LIMITS: Final[list[Limit]] = [
    Limit(
        "Characters of a template; its levels; characters of what it gives",
        "{archon_mesh.workflows.sandbox:MAX_SOURCE}; {archon_mesh.workflows.sandbox:MAX_DEPTH}; "
        "{archon_mesh.workflows.evaluate:MAX_RENDERED}",
        "`INVALID_ARGUMENT`: the run fails, or the file is refused.",
        ["test_no_template_multiplies_beyond_the_limits", "test_what_a_template_may_not_do_is_an_error"],
    ),
    Limit(
        "CPU time of a template; memory of its process; time of it and of all of one expansion",
        "{archon_mesh.workflows.sandbox:CPU_SECONDS|seconds}; "
        "{archon_mesh.workflows.sandbox:MEMORY_BYTES|bytes}; {archon_mesh.workflows.sandbox:SECONDS|seconds}",
        "Its process is ended; `INVALID_ARGUMENT`: the run fails.",
        ["test_an_error_names_the_limit", "test_templates_of_one_expansion_have_one_limit"],
    ),
    Limit(
        "Templates rendered by other processes at the same time; seconds that another one waits",
        "{archon_mesh.workflows.sandbox:PROCESSES}; {archon_mesh.limited.processes:WAIT_SECONDS|seconds}",
        "It waits; then `RESOURCE_EXHAUSTED`, which is retried.",
        ["test_a_request_waits_for_a_free_process"],
    ),
    Limit(
        "Steps and conditions that are evaluated in one expansion",
        "{archon_mesh.workflows.expand:MAX_EVALUATED}",
        "`INVALID_ARGUMENT`: the run fails.",
        ["test_conditions_without_end_are_refused"],
    ),
    Limit(
        "Bytes of results of templates that are remembered",
        "{archon_mesh.workflows.sandbox:MAX_REMEMBERED|bytes}",
        "Those used longest ago are forgotten, and rendered again.",
        ["test_the_oldest_results_are_forgotten"],
    ),
    Limit(
        "Items of a `for_each`; retries of a step",
        "{archon_mesh.workflows.expand:MAX_ITEMS}; {archon_mesh.workflows.schema:MAX_RETRIES}",
        "`INVALID_ARGUMENT`: the run fails; the file is refused.",
        ["test_a_result_that_does_not_fit_names_the_step", "test_each_fault_has_file_line_and_key"],
    ),
    Limit(
        "Steps of a file; blocks within each other; workflows that call each other; files of a folder",
        "{archon_mesh.workflows.load:MAX_STEPS}; {archon_mesh.workflows.schema:MAX_NESTING}; "
        "{archon_mesh.workflows.load:MAX_CALLS}; {archon_mesh.workflows.folder:MAX_FILES}",
        "`INVALID_ARGUMENT`; further files are not read.",
        ["test_large_files_are_refused", "test_workflows_that_call_each_other_are_an_error"],
    ),
    Limit(
        "A workflow with those that it calls and its arguments, in a goal",
        "{archon_mesh.workflows.role:MAX_WORKFLOW_BYTES|bytes}",
        "`INVALID_ARGUMENT`",
        ["test_a_workflow_in_a_goal_is_bounded"],
    ),
]
