"""When a plan is made anew, and what is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from archon_mesh.engine.plan import (
    MAX_REPLANS,
    Plan,
    ReplanCounters,
    ReplanPolicy,
    SubTask,
    SubTaskStatus,
    carry_over,
    replan_reason,
)
from archon_mesh.engine.plan.replan import MAX_PROBLEM, is_same_work
from tests.unit.mesh.engine.plan.plans import step, task_of

DONE, FAILED = SubTaskStatus.COMPLETED, SubTaskStatus.FAILED


def failed_attempts(count: int) -> ReplanCounters:
    counters = ReplanCounters()
    for _ in range(count):
        counters = counters.with_failed_attempt("a")
    return counters


@pytest.mark.parametrize(
    ("counters", "reason"),
    [
        (ReplanCounters(), None),
        (failed_attempts(2), None),
        (failed_attempts(3), "subtask a failed 3 times"),
        (ReplanCounters().with_failed(step("a")), None),
        (ReplanCounters().with_failed(step("a")).with_failed(step("b")), "2 subtasks in a row failed"),
        (ReplanCounters().with_failed(step("a")).with_completed().with_failed(step("b")), None),
        (ReplanCounters().with_failed(step("a", critical=True)), "the critical subtask a failed"),
        (ReplanCounters(confidence=0.2), "the confidence is 0.20, below 0.30"),
        (ReplanCounters(misalignment="it books a flight"), "the plan no longer serves the query: it books a flight"),
        (ReplanCounters(misalignment="it books a flight").with_replan(), None),
        (ReplanCounters(misalignment="it books a flight", confidence=0.2).without_doubts(), None),
        (ReplanCounters(misalignment="it books a flight", replans=MAX_REPLANS), None),
        (failed_attempts(3).with_replan(), None),
    ],
)
def test_a_replan_has_a_reason(counters: ReplanCounters, reason: str | None) -> None:
    assert replan_reason(counters) == reason


def test_there_are_at_most_three_replans() -> None:
    counters = ReplanCounters()
    for _ in range(MAX_REPLANS):
        counters = counters.with_failed(step("a", critical=True))
        assert replan_reason(counters) is not None
        counters = counters.with_replan()
    assert replan_reason(counters.with_failed(step("a", critical=True))) is None


def test_a_failure_goes_before_a_plan_that_misses_the_query() -> None:
    counters = ReplanCounters(misalignment="it books a flight").with_failed(step("a", critical=True))
    assert replan_reason(counters) == "the critical subtask a failed"


def test_a_long_problem_is_cut_in_the_reason() -> None:
    reason = replan_reason(ReplanCounters(misalignment="x" * (MAX_PROBLEM + 5)))
    assert reason is not None
    assert reason.endswith("x ... [5 characters left out]")


def test_the_policy_sets_the_limits() -> None:
    assert replan_reason(failed_attempts(1), ReplanPolicy(failures_of_subtask=1)) is not None
    assert replan_reason(failed_attempts(3), ReplanPolicy(max_replans=0)) is None


OLD = task_of(
    step("1", description="Find flights").with_result("AB12"),
    step("2", "1", description="Book the Grand Hotel", status=FAILED),
    query="Book a trip",
    context={"city": "Rome"},
)


def test_completed_subtasks_keep_their_results() -> None:
    new = task_of(step("3", "1", description="Book the Plaza"), query="?", goal="A trip", context={"days": 2})
    merged = carry_over(OLD, new)
    assert (merged.id, merged.original_query, merged.goal) == ("task-1", "Book a trip", "A trip")
    assert merged.subtasks == (OLD.subtasks[0], new.subtasks[0])
    assert merged.context == {"city": "Rome", "days": 2}


def test_a_repeated_subtask_is_left_out() -> None:
    new = task_of(step("x", description="Find  flights"), step("y", "x", description="Book the Plaza"))
    assert carry_over(OLD, new).subtasks == (OLD.subtasks[0], step("y", "1", description="Book the Plaza"))


def test_a_repeated_tool_call_is_left_out() -> None:
    done = step("1", tool_name="search", tool_args={"a": 1, "b": 2}).with_result("x")
    again = step("9", description="Search again", tool_name="search", tool_args={"b": 2, "a": 1})
    other = step("8", tool_name="search", tool_args={"b": 3})
    assert carry_over(task_of(done), task_of(again, other)).subtasks == (done, other)


def test_a_new_subtask_with_a_completed_id_gets_another() -> None:
    new = task_of(
        step("1", description="Find trains"),
        step("2", "1", description="Book it", tool_name="book", tool_args={"id": "{1.id}", "note": "{{1}}"}),
        step("1-2", description="Pay"),
    )
    merged = carry_over(OLD, new)
    assert [subtask.id for subtask in merged.subtasks] == ["1", "1-3", "2", "1-2"]
    assert merged.subtasks[2].dependencies == ("1-3",)
    assert merged.subtasks[2].tool_args == {"id": "{1-3.id}", "note": "{{1}}"}
    Plan.of(merged)


def test_dependencies_of_completed_subtasks_are_completed() -> None:
    old = task_of(step("a", status=FAILED), step("b", "a", partial_input=True).with_result("x"))
    merged = carry_over(old, task_of(step("c", "b")))
    Plan.of(merged)
    assert merged.subtasks[0].dependencies == ()


@pytest.mark.parametrize("change", [ReplanCounters.with_completed, ReplanCounters.with_replan])
def test_success_and_a_replan_end_a_row_of_failures(change: Callable[[ReplanCounters], ReplanCounters]) -> None:
    assert change(ReplanCounters(consecutive_failures=1)).consecutive_failures == 0


@pytest.mark.parametrize(
    ("steps", "is_same"),
    [
        ((step("b", "a"), step("c", "b")), True),
        ((step("c", "b"), step("b", "a")), True),
        ((step("b", "a"), step("c", "a")), False),
        ((step("b", "a"),), False),
        ((step("b", "a"), step("c", "b"), step("d")), False),
        ((step("1", "a", description="Do b"), step("2", "1", description="Do c")), True),
        ((step("b", "a", tool_name="book"), step("c", "b")), False),
    ],
)
def test_plans_that_leave_the_same_work_are_told_apart(steps: tuple[SubTask, ...], is_same: bool) -> None:
    old = task_of(step("a", status=DONE), step("b", "a", description="Do b"), step("c", "b", description="Do c"))
    named = tuple(
        each if each.description.startswith("Do") else replace(each, description=f"Do {each.id}") for each in steps
    )
    assert is_same_work(old, carry_over(old, task_of(*named))) is is_same


def test_what_has_ended_is_no_work_that_is_left() -> None:
    old = task_of(step("a", status=DONE), step("x", status=FAILED), step("b", "a"))
    assert is_same_work(old, carry_over(old, task_of(step("b", "a"))))
