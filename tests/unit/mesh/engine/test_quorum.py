"""Steps that need only some of their dependencies: when they start, and what becomes of the other dependencies."""

from __future__ import annotations

import pytest

from archon_mesh.engine import CancelAttempt, Timer, open_effects
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.plan_edit import edit_refusal
from archon_mesh.engine.types import NOT_NEEDED, TaskState
from tests.unit.mesh.engine.plan_run import BROKEN, BUSY, T0, PlanRun, plan_of, step


def test_a_step_starts_with_its_quorum_and_the_others_are_stopped() -> None:
    run = PlanRun(step("a"), step("b"), step("c"), step("join", "a", "b", "c", quorum=2))
    run.begin("a", "b", "c")
    run.complete("b")
    assert run.waiting() == set()
    events = run.complete("a")
    assert [type(event) for event in events] == [ev.ResultReceived, ev.TaskStopping]
    assert run.waiting() == {"join"}
    assert CancelAttempt(run.task("c").task_id, 1, 1, "i") in open_effects(run.state)
    run.begin("join")
    dispatched = next(event for event, _ in run.log[::-1] if isinstance(event, ev.Dispatched))
    assert [run.state.answer_tasks[ref.seq] for ref in dispatched.context] == [
        run.task("a").task_id,
        run.task("b").task_id,
    ]


def test_the_late_result_of_a_stopped_step_does_not_count() -> None:
    run = PlanRun(step("a"), step("b"), step("join", "a", "b", quorum=1))
    run.begin("a", "b")
    run.complete("a")
    late = run.task("b")
    events = run.feed(inp.ResultIn(late.task_id, 1, TaskState.COMPLETED, "too late"))
    assert [type(event) for event in events] == [ev.Discarded]
    assert late.state is TaskState.CANCELED
    assert late.failure is not None
    assert late.failure.reason == NOT_NEEDED
    run.begin("join")
    assert [ref.role for ref in run.task("join").context] == ["writer"]
    run.complete("join")
    assert run.state.state is TaskState.COMPLETED


def test_the_run_ends_though_a_stopped_step_has_not_ended() -> None:
    run = PlanRun(step("a"), step("b"), step("join", "a", "b", quorum=1))
    run.begin("a", "b")
    run.complete("a", "join")
    assert run.state.ending is TaskState.COMPLETED
    stopped = run.task("b")
    run.feed(inp.ResultIn(stopped.task_id, 1, TaskState.CANCELED, None))
    assert run.state.state is TaskState.COMPLETED
    assert run.count(ev.TaskCreated) == 4  # the planner's, and three steps: nothing is planned or combined anew


@pytest.mark.parametrize("how", ["lost", "rejected"])
def test_a_stopped_step_whose_attempt_is_lost_ends(how: str) -> None:
    run = PlanRun(step("a"), step("b"), step("join", "a", "b", quorum=1))
    run.begin("a", "b")
    run.complete("a")
    task = run.task("b")
    given = inp.LostIn(task.task_id, 1, BUSY) if how == "lost" else inp.RejectIn(task.task_id, 1, BUSY, 0.1)
    run.feed(given)
    assert task.state is TaskState.CANCELED
    run.complete("join")
    assert run.state.state is TaskState.COMPLETED


def test_a_dependency_that_has_not_begun_is_cancelled_with_what_only_it_needs() -> None:
    run = PlanRun(step("a"), step("b1"), step("b2", "b1"), step("join", "a", "b2", quorum=1))
    run.begin("a", "b1")
    run.complete("a")
    assert run.states() == {"a": "COMPLETED", "b1": "WORKING", "b2": "CANCELED", "join": "SUBMITTED"}
    assert run.task("b1").stopping


def test_a_dependency_that_another_step_needs_goes_on() -> None:
    run = PlanRun(step("a"), step("b"), step("join", "a", "b", quorum=1), step("other", "b"))
    run.begin("a", "b")
    run.complete("a")
    assert not run.task("b").stopping
    run.complete("b")
    assert run.waiting() == {"join", "other"}


def test_a_failure_that_leaves_enough_results_is_no_reason_for_another_plan() -> None:
    run = PlanRun(step("a"), step("b"), step("c"), step("join", "a", "b", "c", quorum=1))
    run.fail("a")
    run.fail("b")
    assert run.state.plan is not None
    assert not run.state.plan.planner
    assert run.state.plan.counters.consecutive_failures == 0
    run.complete("c")
    assert run.waiting() == {"join"}


def test_a_critical_failure_is_a_reason_for_another_plan_whatever_the_quorum() -> None:
    run = PlanRun(step("a", critical=True), step("b"), step("join", "a", "b", quorum=1))
    run.fail("a")
    assert run.state.plan is not None
    assert run.state.plan.planner


def test_a_step_that_can_no_longer_have_its_quorum_is_skipped() -> None:
    run = PlanRun(step("a"), step("b"), step("c"), step("join", "a", "b", "c", quorum=2), step("d"))
    run.fail("a")
    assert run.states()["join"] == "SUBMITTED"
    run.fail("b")
    assert run.states()["join"] == "CANCELED"


def test_with_partial_input_a_step_starts_with_fewer_results_than_its_quorum_once_all_have_ended() -> None:
    run = PlanRun(step("a"), step("b"), step("c"), step("join", "a", "b", "c", quorum=2, partial_input=True))
    run.begin("a", "b", "c")
    run.fail("a")
    assert run.waiting() == set()
    run.complete("c")
    assert run.waiting() == set()
    run.fail("b")
    assert run.waiting() == {"join"}


def test_with_partial_input_the_last_dependency_may_complete() -> None:
    run = PlanRun(step("a"), step("b"), step("c"), step("join", "a", "b", "c", quorum=3, partial_input=True))
    run.begin("a", "b", "c")
    run.fail("a")
    run.complete("b")
    assert run.waiting() == set()
    run.complete("c")
    assert run.waiting() == {"join"}


def test_a_new_plan_may_have_a_stopped_step_again() -> None:
    run = PlanRun(step("a"), step("b"), step("join", "a", "b", quorum=1), step("x", critical=True))
    run.begin("a", "b", "x")
    run.complete("a")
    run.fail("x")
    assert run.state.plan is not None
    run.begin(run.state.plan.planner)
    run.reply(step("y", "b"), step("b"))
    assert run.waiting() == {"b"}
    run.complete("b", "y")
    assert run.task("b").state is TaskState.COMPLETED


def test_an_edit_cannot_build_on_a_stopped_step() -> None:
    run = PlanRun(step("a"), step("b"), step("join", "a", "b", quorum=1), step("x", "join"))
    run.complete("a")
    assert run.state.plan is not None
    edit = inp.EditPlan("ann", "e", run.state.plan.seq, plan_of(*run.state.plan.steps.values(), step("y", "b")))
    refusal = edit_refusal(run.state, edit)
    assert refusal is not None
    assert refusal.message == "subtask 'y' depends on 'b', which was stopped"


def test_an_edit_does_not_start_a_stopped_step_again() -> None:
    run = PlanRun(step("a"), step("b"), step("join", "a", "b", quorum=1), step("x", "join"))
    run.begin("a", "b")
    run.complete("a")
    assert run.state.plan is not None
    steps = (*run.state.plan.steps.values(), step("y", "x"))
    run.feed(inp.EditPlan("ann", "e", run.state.plan.seq, plan_of(*steps)))
    assert set(run.states()) == {"a", "b", "join", "x", "y"}
    assert run.task("b").stopping
    assert run.waiting() == {"join"}


def test_a_delayed_step_starts_after_its_delay_or_as_soon_as_one_beside_it_fails() -> None:
    steps = (step("a"), step("b", delay_seconds=5.0), step("join", "a", "b", quorum=1))
    run = PlanRun(*steps)
    run.begin("a")
    assert run.feed(inp.SlotFound(run.task("b").task_id, "i")) == []
    run.now = T0 + 5
    run.begin("b")
    assert run.task("b").live

    run = PlanRun(*steps)
    run.begin("a")
    run.now = T0 + 1
    run.fail("a")
    assert run.task("b").not_before == T0 + 1
    run.complete("b")
    assert run.waiting() == {"join"}


def test_a_delay_counts_from_the_last_result_that_the_step_waits_for() -> None:
    run = PlanRun(step("a"), step("b", "a", delay_seconds=5.0))
    run.now = T0 + 3
    run.complete("a")
    assert run.task("b").not_before == T0 + 8


def test_a_delayed_step_that_is_not_needed_never_starts() -> None:
    run = PlanRun(step("a"), step("b", delay_seconds=5.0), step("join", "a", "b", quorum=1))
    run.complete("a", "join")
    assert run.state.state is TaskState.COMPLETED
    assert run.task("b").attempt == 0
    assert not [each for each in open_effects(run.state) if isinstance(each, Timer)]


def test_a_paused_run_does_not_start_a_step_whose_delay_is_over() -> None:
    run = PlanRun(step("a", delay_seconds=5.0))
    run.feed(inp.Pause("ann"))
    run.now = T0 + 6
    assert run.waiting() == set()
    run.feed(inp.Resume("ann"))
    assert run.waiting() == {"a"}


def test_a_question_of_a_step_that_is_not_needed_is_withdrawn() -> None:
    run = PlanRun(step("a"), step("b"), step("join", "a", "b", quorum=1))
    run.begin("a", "b")
    task = run.task("b")
    run.feed(inp.QuestionIn(task.task_id, 1, TaskState.INPUT_REQUIRED, "what?", input_id="q"))
    assert task.question
    run.complete("a")
    assert task.state is TaskState.CANCELED
    assert not task.question
    assert run.state.state is TaskState.WORKING


@pytest.mark.parametrize("state", [TaskState.COMPLETED, TaskState.FAILED])
@pytest.mark.parametrize("is_critical", [True, False])
def test_a_run_whose_answer_is_there_ends_with_its_last_step(state: TaskState, is_critical: bool) -> None:
    run = PlanRun(step("a"), step("x"), step("b", critical=is_critical), step("join", "a", "x", quorum=1))
    run.begin("x", "b")
    run.complete("a")
    assert run.state.plan is not None
    steps = run.state.plan.steps.values()
    end = step("end", "join", "a", "b", quorum=1)  # it has its quorum from the beginning
    run.feed(inp.EditPlan("ann", "e", run.state.plan.seq, plan_of(*steps, end)))
    run.complete("end", "join")
    assert run.waiting() == set()
    task = run.task("b")
    run.feed(inp.ResultIn(task.task_id, 1, state, None, BROKEN if state is TaskState.FAILED else None))
    assert run.state.ending is TaskState.COMPLETED
    run.feed(inp.ResultIn(run.task("x").task_id, 1, TaskState.CANCELED, None))
    assert run.state.state is TaskState.COMPLETED
