"""Breakpoints before tasks and steps, by example."""

from __future__ import annotations

from typing import Any

from archon_mesh.core.people import Breakpoint, BreakpointPoint, Decision, parse_breakpoint
from archon_mesh.engine import Place, RunState, open_effects
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.human_input import answer_refusal
from archon_mesh.engine.types import TaskState
from tests.unit.mesh.engine.checked_step import checked_step
from tests.unit.mesh.engine.lead_run import GONE
from tests.unit.mesh.engine.plan_run import PlanRun, step

HELD_A = "r.2/breakpoint"


def breaking(run: PlanRun, *texts: str) -> list[ev.Event]:
    return run.feed(inp.SetBreakpoints("ann", tuple(map(parse_breakpoint, texts))))


def two_steps(*texts: str) -> PlanRun:
    """A run with the steps a and b, which do not need each other, and these breakpoints."""
    run = PlanRun(step("a"), step("b"))
    breaking(run, *texts)
    return run


def respond(run: PlanRun, decision: Decision, *, input_id: str = HELD_A, **more: Any) -> list[ev.Event]:
    return run.feed(inp.Respond(input_id, "ann", "", "00", "!", decision, **more))


def kinds(events: list[ev.Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def begin(run: PlanRun, name: str) -> list[ev.Event]:
    return run.feed(inp.SlotFound(run.task(name).task_id, "i"))


def test_a_step_is_held_once_and_goes_on() -> None:
    run = two_steps("step:a")
    (held,) = begin(run, "a")
    assert isinstance(held, ev.ApprovalRequested)
    assert (held.breakpoint, held.terms.timeout, held.input_id) == ("step:a", 0.0, HELD_A)
    assert kinds(respond(run, Decision.APPROVE)) == ["InputGiven"]
    assert run.task("a").inputs == (), "the next attempt is given no answer that it has not asked for"
    assert kinds(begin(run, "a")) == ["Dispatched"]
    run.feed(inp.LostIn("r.2", 1, GONE))
    assert kinds(begin(run, "a")) == ["Dispatched"], "no breakpoint holds a task twice"


def test_no_other_task_is_dispatched_while_one_is_held() -> None:
    run = two_steps("task:writer")
    begin(run, "a")
    assert (run.state.at_breakpoint, run.waiting()) == (True, set())
    assert begin(run, "b") == []
    assert not any(isinstance(effect, Place) for effect in open_effects(run.state))
    respond(run, Decision.APPROVE)
    assert (run.state.at_breakpoint, run.waiting()) == (False, {"a", "b"})


def test_the_clock_stands_still_while_a_task_is_held() -> None:
    run = two_steps("step:a")
    deadline = run.state.deadline
    begin(run, "a")
    run.now += 100.0
    assert run.feed(inp.Tick()) == []
    respond(run, Decision.APPROVE)
    assert run.state.deadline == deadline + 100.0


def test_a_given_answer_completes_the_task_without_an_attempt() -> None:
    run = two_steps("step:a")
    begin(run, "a")
    assert kinds(respond(run, Decision.MODIFY, result="so", is_answer=True))[:2] == ["InputGiven", "ResultReceived"]
    task = run.task("a")
    assert (task.state, task.attempt, task.payload) == (TaskState.COMPLETED, 0, "so")


def test_another_input_is_kept_for_the_dispatch() -> None:
    run = two_steps("step:a")
    begin(run, "a")
    assert kinds(respond(run, Decision.MODIFY)) == ["InputGiven"]
    assert run.task("a").edited == "!"
    assert kinds(begin(run, "a")) == ["Dispatched"]


def test_a_rejection_fails_the_run() -> None:
    run = two_steps("step:a")
    begin(run, "a")
    respond(run, Decision.REJECT)
    assert run.state.state is TaskState.FAILED and run.state.failure is not None
    assert run.state.failure.reason == "APPROVAL_REJECTED"


def test_a_planner_is_held_and_cannot_be_answered_for() -> None:
    run = PlanRun()
    breaking(run, "task:planner")
    begin(run, "r.1")
    response = inp.Respond("r.1/breakpoint", "ann", "", "00", "!", Decision.MODIFY, is_answer=True)
    refusal = answer_refusal(run.state, run.task("r.1"), response)
    assert refusal is not None and refusal.reason == "INVALID_ARGUMENT"
    assert kinds(respond(run, Decision.MODIFY, input_id="r.1/breakpoint")) == ["InputGiven"]
    assert kinds(begin(run, "r.1")) == ["Dispatched"]


def test_the_same_breakpoints_and_those_of_an_ended_run_change_nothing() -> None:
    run = two_steps("step:a")
    assert breaking(run, "step:a") == []
    assert kinds(breaking(run)) == ["BreakpointsSet"] and run.state.breakpoints == ()
    run.feed(inp.Cancel("ann", ""))
    assert breaking(run, "step:a") == []


def test_a_cancelled_run_does_not_wait_for_its_hold() -> None:
    run = two_steps("step:a")
    begin(run, "a")
    assert kinds(run.feed(inp.Cancel("ann", "")))[-1] == "RunEnded"


def test_a_removed_breakpoint_holds_no_further_task() -> None:
    run = two_steps("step:*")
    breaking(run)
    assert kinds(begin(run, "a")) == ["Dispatched"]


def test_breakpoints_of_a_submit_come_after_the_first_event() -> None:
    run = PlanRun()
    submission = run.state.submission
    assert submission is not None
    state = RunState()
    points = (Breakpoint(BreakpointPoint.TOOL, "pay"),)
    events = checked_step(state, inp.Submit(submission, "owner", 1, breakpoints=points, identity="ann"), 1.0)
    assert kinds(events)[:2] == ["Submitted", "BreakpointsSet"] and state.breakpoints == points
