"""Runs with a plan by example: the planner's reply, the steps, failures and replans, and the end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from archon.failure_kinds import RetryAdvice
from archon_mesh.engine import CancelAttempt, open_effects
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide import plan_reply
from archon_mesh.engine.decide.plan_edit import edit_refusal
from archon_mesh.engine.effects import CANCEL_GRACE, Timer
from archon_mesh.engine.plan import MAX_REPLANS, SubTask
from archon_mesh.engine.plan import Task as Plan
from archon_mesh.engine.types import ContextRef, TaskState
from tests.unit.mesh.engine.plan_run import BUSY, PlanRun, plan_of, step


def test_a_plan_becomes_tasks_in_one_append() -> None:
    run = PlanRun()
    assert run.waiting() == {"r.1"}
    run.begin("r.1")
    result, planned, *created = run.reply(step("c", "a", "b"), step("a"), step("b", tool_name="book"))
    assert isinstance(result, ev.ResultReceived)
    assert isinstance(planned, ev.Planned)
    assert (planned.task_id, planned.revision, planned.changes) == ("r.1", 1, ())
    assert created == [
        ev.TaskCreated("r.2", "writer", step_id="a"),
        ev.TaskCreated("r.3", "booker", step_id="b"),
        ev.TaskCreated("r.4", "writer", predecessors=("r.2", "r.3"), step_id="c"),
    ]
    assert run.waiting() == {"a", "b"}


def test_a_step_starts_with_the_results_of_its_own_dependencies() -> None:
    run = PlanRun(step("a"), step("b"), step("c", "a"))
    run.complete("a")
    assert run.waiting() == {"b", "c"}
    run.begin("c")
    assert run.task("c").context == (ContextRef("writer", run.task("a").result_seq),)


def test_the_answer_of_a_single_sink_is_that_of_the_run() -> None:
    run = PlanRun(step("a"), step("b"), step("c", "a", "b"))
    run.complete("a", "b")
    events = run.complete("c")
    assert isinstance(events[-1], ev.RunEnded)
    assert run.state.answer_seqs == (run.task("c").result_seq,)
    assert run.state.state is TaskState.COMPLETED


def test_several_sinks_are_combined_by_the_planner() -> None:
    run = PlanRun(step("a"), step("b"), step("c", "a"))
    run.complete("b", "a")
    (_, created) = run.complete("c")
    assert created == ev.TaskCreated("r.5", "planner", predecessors=("r.3", "r.4"))
    run.begin("r.5")
    assert [ref.seq for ref in run.task("r.5").context] == [run.task(name).result_seq for name in "bc"]
    run.complete("r.5")
    assert run.state.answer_seqs == (run.state.tasks["r.5"].result_seq,)


def test_a_reply_with_faults_is_refused_once() -> None:
    run = PlanRun()
    run.begin("r.1")
    (refused,) = run.reply(step("a", "b"), step("b", "a", role="absent"))
    assert isinstance(refused, ev.Retried)
    assert refused.failure.reason == "PLAN_FAILED"
    assert len(run.state.tasks["r.1"].faults) == 2
    run.now += 10
    run.begin("r.1")
    _, planned, *created = run.reply(step("a", "b"), step("b", "a", role="absent"))
    assert isinstance(planned, ev.Planned)
    assert planned.changes, "the event tells how the plan was repaired"
    assert {event.role for event in created if isinstance(event, ev.TaskCreated)} <= {"writer", "booker"}


@pytest.mark.parametrize("times", [1, 2])
def test_a_reply_that_is_no_plan_fails_the_run_the_second_time(times: int) -> None:
    run = PlanRun()
    for attempt in range(1, times + 1):
        run.now += 10
        run.begin("r.1")
        faults = (("", "the text is no JSON object"),)
        run.feed(inp.PlanIn("r.1", attempt, TaskState.COMPLETED, None, faults=faults))
    assert run.state.ended == (times == 2)
    if times == 2:
        assert run.state.failure is not None
        assert (run.state.failure.reason, run.state.failure.violations) == (
            "PLAN_FAILED",
            (("plan", "the text is no JSON object"),),
        )


def test_a_tool_without_its_role_is_a_fault() -> None:
    run = PlanRun()
    run.begin("r.1")
    (refused,) = run.reply(step("a", tool_name="book", role="writer"))
    assert isinstance(refused, ev.Retried)
    assert "does not have the tool 'book'" in refused.failure.message
    run.now += 10
    run.begin("r.1")
    run.reply(step("a", tool_name="book", role="writer"))
    assert run.task("a").role == "booker", "the tool decides"


def test_a_step_that_names_nothing_goes_to_the_role_of_its_words() -> None:
    run = PlanRun(SubTask("a", "Book two hotels."), SubTask("b", "Write the texts.", dependencies=("a",)))
    assert [run.task(name).role for name in "ab"] == ["booker", "writer"]


def test_a_failed_step_skips_what_needs_it() -> None:
    run = PlanRun(step("a"), step("b", "a"), step("c", "b"), step("d"))
    events = run.fail("a")
    assert [type(event) for event in events] == [ev.ResultReceived, ev.TaskEnded, ev.TaskEnded]
    assert run.states() == {"a": "FAILED", "b": "CANCELED", "c": "CANCELED", "d": "SUBMITTED"}
    assert not run.state.ended
    run.complete("d")
    run.complete("r.6")
    assert run.state.state is TaskState.COMPLETED, "the planner combines what there is"


def test_partial_input_starts_without_what_failed() -> None:
    run = PlanRun(step("a"), step("b"), step("c", "a", "b", partial_input=True))
    run.fail("a")
    assert run.waiting() == {"b"}
    run.complete("b")
    assert run.waiting() == {"c"}
    run.begin("c")
    assert [ref.seq for ref in run.task("c").context] == [run.task("b").result_seq]
    run.complete("c")
    assert run.state.state is TaskState.COMPLETED


def test_a_transient_failure_of_a_step_is_retried() -> None:
    run = PlanRun(step("a", critical=True), step("b", "a"))
    (retried,) = run.fail("a", BUSY)
    assert isinstance(retried, ev.Retried)
    run.now += 10
    run.complete("a", "b")
    assert run.state.state is TaskState.COMPLETED


def replanned() -> PlanRun:
    """`a` has completed, `b` runs, `hotel` has failed, `d` waits for it; the planner is asked anew."""
    run = PlanRun(step("a"), step("b"), step("hotel", critical=True), step("d", "a", "b", "hotel"))
    run.complete("a")
    run.begin("b")
    events = run.fail("hotel")
    assert isinstance(events[-1], ev.TaskCreated)
    assert events[-1].role == "planner"
    return run


def test_a_failed_critical_step_has_the_plan_made_anew() -> None:
    run = replanned()
    assert run.state.plan is not None
    assert run.state.plan.reason == "the critical subtask hotel failed"
    assert run.waiting() == {"r.6"}, "what needs the failed step is neither started nor skipped"


def test_a_replan_keeps_what_is_done_and_what_runs() -> None:
    run = replanned()
    before = {name: run.task(name).task_id for name in "ab"}
    run.begin("r.6")
    _, ended, planned, *created = run.reply(step("b"), step("hostel"), step("d", "a", "b", "hostel"))
    assert isinstance(ended, ev.TaskEnded)
    assert ended.task_id == "r.5", "the old d had not begun"
    assert isinstance(planned, ev.Planned)
    assert planned.revision == 2
    assert {name: run.task(name).task_id for name in "ab"} == before
    assert [event.step_id for event in created if isinstance(event, ev.TaskCreated)] == ["hostel", "d"]
    run.complete("b", "hostel", "d")
    assert run.state.state is TaskState.COMPLETED
    assert sum(isinstance(event, ev.Dispatched) and event.task_id == before["a"] for event, _ in run.log) == 1


def test_step_whose_schema_changes_is_executed_anew() -> None:
    run = replanned()
    before = run.task("b").task_id
    run.begin("r.6")
    run.reply(step("b", output_schema={"type": "array"}), step("hostel"))
    assert run.task("b").task_id != before


def test_a_replan_stops_what_it_no_longer_has() -> None:
    run = replanned()
    stopped = run.task("b").task_id
    run.begin("r.6")
    run.reply(step("d", "a"))
    assert run.state.tasks[stopped].stopping
    assert any(isinstance(each, CancelAttempt) and each.task_id == stopped for each in open_effects(run.state))
    events = run.complete("d")
    assert not run.state.ended, "the stopped attempt has to end first"
    assert events
    run.feed(inp.ResultIn(stopped, 1, TaskState.CANCELED, None))
    assert run.state.state is TaskState.COMPLETED
    assert run.state.answer_seqs == (run.task("d").result_seq,)


@pytest.mark.parametrize(
    "again",
    [
        step("b", role="booker"),
        step("b", "a", tool_name="search", tool_args={"about": "{a}"}),
        step("b", "hostel"),
        step("b", "a"),
        replace(step("b"), description="Do something else."),
    ],
)
def test_a_step_that_only_has_the_id_of_one_in_progress_is_another(again: SubTask) -> None:
    run = replanned()
    stopped = run.task("b").task_id
    run.begin("r.6")
    run.reply(again, step("hostel"), step("d", "a", "b", "hostel"))
    assert run.state.tasks[stopped].stopping
    assert run.task("b").task_id != stopped
    run.feed(inp.ResultIn(stopped, 1, TaskState.CANCELED, None))
    run.complete("hostel", "b", "d")
    assert run.state.state is TaskState.COMPLETED


def test_a_step_in_progress_need_not_depend_on_what_failed_any_more() -> None:
    run = PlanRun(step("a"), step("hotel", critical=True), step("b", "a", "hotel", partial_input=True))
    run.complete("a")
    run.fail("hotel")
    run.begin("b")
    before = run.task("b").task_id
    planner = next(iter(run.waiting()))
    run.begin(planner)
    run.reply(step("b", "a", partial_input=True), step("hostel"))
    assert run.task("b").task_id == before
    assert not run.task("b").stopping


def test_a_step_with_the_id_of_a_failed_one_is_tried_anew() -> None:
    run = replanned()
    failed = run.task("hotel").task_id
    run.begin("r.6")
    run.reply(step("b"), step("hotel"), step("d", "a", "b", "hotel"))
    assert run.task("hotel").task_id != failed
    run.complete("b", "hotel", "d")
    assert run.state.state is TaskState.COMPLETED


def test_after_the_last_replan_the_run_fails_and_names_the_steps() -> None:
    run = PlanRun(step("a", critical=True), step("slow"))
    run.begin("slow")
    for _ in range(MAX_REPLANS):
        run.fail("a")
        assert run.state.plan is not None
        run.begin(run.state.plan.planner)
        run.reply(step("a", critical=True), step("slow"))
    run.fail("a")
    assert not run.state.ended, "the attempt in progress is stopped first"
    run.feed(inp.ResultIn(run.task("slow").task_id, 1, TaskState.CANCELED, None))
    assert run.state.state is TaskState.FAILED
    failure = run.state.failure
    assert failure is not None
    assert failure.reason == "PLAN_FAILED"
    assert dict(failure.metadata)["failed_steps"] == "a"
    assert "simpler goal" in dict(failure.metadata)["suggestion"]


def test_a_plan_of_which_nothing_completes_fails() -> None:
    run = PlanRun(step("a"), step("b", "a"))
    events = run.fail("a")
    assert isinstance(events[-1], ev.RunEnded)
    assert run.state.failure is not None
    assert run.state.failure.reason == "PLAN_FAILED"


def test_a_planner_that_fails_fails_the_run() -> None:
    run = PlanRun()
    run.fail("r.1")
    assert run.state.state is TaskState.FAILED
    assert run.state.failure is not None
    assert run.state.failure.reason == "INVALID_ARGUMENT"


def test_a_replan_that_repeats_only_what_is_done_ends_the_run() -> None:
    run = PlanRun(step("a"), step("b", "a", critical=True))
    run.complete("a")
    run.fail("b")
    run.begin("r.4")
    events = run.reply(step("a"))
    assert isinstance(events[-1], ev.RunEnded)
    assert run.state.answer_seqs == (run.task("a").result_seq,)


MISSING: dict[str, object] = {"tool_name": "book", "tool_args": {"text": "{nine}"}}


@pytest.mark.parametrize("fields", [{"role": ""}, {"role": "wizard"}, {"tool_name": "boook"}, MISSING])
def test_a_planner_that_repeats_its_reply_repeats_no_step(fields: dict[str, object]) -> None:
    run, steps = PlanRun(), (step("a", **fields), step("hotel", "a", critical=True))
    for _ in range(2):
        assert run.state.plan is not None
        run.begin(run.state.plan.planner)
        if isinstance(run.reply(*steps)[-1], ev.Retried):  # it has faults, and is repaired the next time
            run.now += 60
            run.begin(run.state.plan.planner)
            run.reply(*steps)
        if run.task("a").state is not TaskState.COMPLETED:
            run.complete("a")
            run.fail("hotel")
    assert run.states() == {"a": "COMPLETED", "hotel": "SUBMITTED"}
    run.complete("hotel")
    assert run.state.state is TaskState.COMPLETED
    assert [each.step_id for each in run.state.tasks.values() if each.step_id] == ["a", "hotel", "hotel"]


def test_missing_input_fails_the_step() -> None:
    run = PlanRun(step("a"), step("b"))
    events = run.feed(inp.InputMissing(run.task("a").task_id, 1, BUSY))
    assert isinstance(events[0], ev.TaskEnded)
    assert run.states()["a"] == "FAILED"
    assert run.feed(inp.InputMissing(run.task("a").task_id, 1, BUSY)) == []


def test_a_plan_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_reply, "MAX_PLAN_SUBTASKS", 4)
    monkeypatch.setattr(plan_reply, "MAX_DEPENDENCIES", 3)
    monkeypatch.setattr(plan_reply, "MAX_FAULTS", 2)
    names = [f"s{number}" for number in range(6)]
    steps = [step(name, *names[max(0, number - 2) : number]) for number, name in enumerate(names)]
    run = PlanRun()
    run.begin("r.1")
    (refused,) = run.reply(*steps)
    assert isinstance(refused, ev.Retried)
    assert len(refused.failure.violations) == 2
    run.now += 10
    run.begin("r.1")
    run.reply(*steps)
    assert run.state.plan is not None
    assert len(run.state.plan.steps) == 4
    assert sum(len(each.dependencies) for each in run.state.plan.steps.values()) <= 3


def edited(run: PlanRun, *steps: SubTask, seq: int = 0) -> inp.EditPlan:
    assert run.state.plan is not None
    return inp.EditPlan("me", "e1", seq or run.state.plan.seq, plan_of(*steps))


def reason(run: PlanRun, edit: inp.EditPlan) -> str:
    """The code with which an edit is refused; then it causes no event."""
    refusal = edit_refusal(run.state, edit)
    assert refusal is not None
    assert run.feed(edit) == []
    return refusal.code


def test_an_edit_replaces_what_has_not_begun() -> None:
    run = PlanRun(step("a"), step("b", "a"), step("c", "b"))
    run.complete("a")
    run.begin("b")
    before = {name: run.task(name).task_id for name in "ab"}
    ended, planned, created = run.feed(edited(run, step("a"), step("b", "a"), step("d", "b")))
    assert isinstance(ended, ev.TaskEnded)
    assert isinstance(planned, ev.Planned)
    assert (planned.revision, planned.identity, planned.edit_id) == (2, "me", "e1")
    assert isinstance(created, ev.TaskCreated)
    assert {name: run.task(name).task_id for name in "ab"} == before
    run.complete("b", "d")
    assert run.state.answer_seqs == (run.task("d").result_seq,)


def test_an_edit_that_touches_what_has_begun_is_refused() -> None:
    run = PlanRun(step("a"), step("b", "a"))
    run.begin("a")
    assert reason(run, edited(run, step("b"))) == "FAILED_PRECONDITION"
    assert reason(run, edited(run, step("a", role="booker"), step("b", "a"))) == "FAILED_PRECONDITION"


def test_an_edit_to_what_has_completed_ends_the_run_a_grace_after_it_with_a_step_that_stops() -> None:
    run = PlanRun(step("a"), step("b"), step("d", critical=True))
    run.complete("a")
    run.begin("b")
    stopping = run.task("b")
    run.fail("d")
    run.begin("r.5")
    run.reply(step("a"), step("c", "a"))
    assert stopping.stopping
    run.feed(edited(run, step("a")))
    assert run.state.ending is TaskState.COMPLETED
    assert open_effects(run.state) >= {Timer(run.now + CANCEL_GRACE)}
    run.feed(inp.Tick(), at=run.now + CANCEL_GRACE)
    assert run.state.state is TaskState.COMPLETED


def test_a_late_edit_is_refused() -> None:
    run = PlanRun(step("a"), step("b", "a"))
    assert run.state.plan is not None
    late = edited(run, step("a"), step("c", "a"))
    run.feed(edited(run, step("a"), step("d", "a")))
    assert reason(run, late) == "ABORTED"


def test_an_edit_with_faults_is_refused() -> None:
    run = PlanRun(step("a"), step("b", "a"))
    assert reason(run, edited(run, step("a"), step("b", "c"))) == "INVALID_ARGUMENT"
    assert reason(run, edited(run)) == "INVALID_ARGUMENT"
    run.fail("a")
    assert run.state.ended


def test_an_edit_cannot_need_what_failed() -> None:
    run = PlanRun(step("a"), step("b"), step("c", "b"))
    run.fail("a")
    steps = (step("a"), step("b"), step("c", "a"))
    assert reason(run, edited(run, *steps)) == "INVALID_ARGUMENT"
    run.feed(edited(run, step("a"), step("b"), step("c", "a", "b", partial_input=True)))
    run.complete("b", "c")
    assert run.states() == {"a": "FAILED", "b": "COMPLETED", "c": "COMPLETED"}
    assert run.state.state is TaskState.COMPLETED


def test_an_edit_that_leaves_only_what_is_done_ends_the_run() -> None:
    run = PlanRun(step("a"), step("b", "a"))
    run.complete("a")
    events = run.feed(edited(run, step("a")))
    assert isinstance(events[-1], ev.RunEnded)
    assert run.state.answer_seqs == (run.task("a").result_seq,)


@pytest.mark.parametrize(
    ("steps", "goal", "kind"),
    [
        ((step("a", "b"), step("b", "a")), "book a trip", "planning.cycle"),
        (tuple(step(str(number)) for number in range(5)), "book a trip", "planning.over_decomposition"),
        ((step("a", tool_name="book", tool_args={"x": "{absent}"}),), "book a trip", "planning.context_loss"),
        ((step("a"),), "sail around Africa", "planning.misread_goal"),
        ((step("a", role="absent"),), "book a trip", "model.hallucination"),
        ((step("a", "absent"),), "book a trip", "planning.deadlock"),
    ],
)
def test_the_refusal_of_a_plan_has_the_kind_of_its_fault(
    monkeypatch: pytest.MonkeyPatch, steps: tuple[SubTask, ...], goal: str, kind: str
) -> None:
    monkeypatch.setattr(plan_reply, "MAX_PLAN_SUBTASKS", 4)
    run = PlanRun()
    run.begin("r.1")
    plan = Plan("", "book a trip", goal, steps)
    (refused,) = run.feed(inp.PlanIn("r.1", 1, TaskState.COMPLETED, None, plan=plan))
    assert isinstance(refused, ev.Retried)
    assert (refused.failure.kind, refused.failure.retry) == (kind, RetryAdvice.LATER)


def test_a_step_that_fails_again_in_each_plan_was_too_large() -> None:
    run = PlanRun(step("a"), step("slow"))
    for _ in range(MAX_REPLANS + 1):
        for _ in range(2):
            run.fail("a", BUSY)
            run.now += 10
        run.fail("a")
        assert run.state.plan is not None
        if planner := run.state.plan.planner:
            run.begin(planner)
            run.reply(step("a"), step("slow"))
    failure = run.state.failure
    assert failure is not None
    assert (failure.reason, failure.kind) == ("PLAN_FAILED", "planning.under_decomposition")
