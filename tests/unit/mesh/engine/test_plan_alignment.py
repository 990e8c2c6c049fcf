"""Checks of whether a plan still leads to its goal: when the planner is asked, and what its reply changes."""

from __future__ import annotations

import pytest

from archon_mesh.core.people import Condition, Decision, InterceptionRule, Trigger
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.plan import MAX_ALIGNMENT_CHECKS, MAX_REPLANS, SubTask
from archon_mesh.engine.types import Failure, TaskState
from tests.unit.mesh.engine.plan_run import BROKEN, BUSY, PlanRun, plan_of, step

CHAIN = (step("a"), step("b", "a"), step("c", "b"))


def run_of(*steps: SubTask, rules: tuple[InterceptionRule, ...] = ()) -> PlanRun:
    return PlanRun(*steps, rules=rules, check_alignment=True)


def check_of(run: PlanRun) -> str:
    assert run.state.plan is not None
    return run.state.plan.alignment


def planned(events: list[ev.Event]) -> ev.Planned:
    return next(event for event in events if isinstance(event, ev.Planned))


def test_after_a_step_the_planner_is_asked_and_steps_go_on() -> None:
    run = run_of(*CHAIN)
    created = run.complete("a")[-1]
    assert created == ev.TaskCreated("r.5", "planner", align=True)
    assert run.waiting() == {"r.5", "b"}
    run.begin("r.5")
    run.complete("b")
    assert run.waiting() == {"c"}


def test_an_aligned_plan_goes_on() -> None:
    run = run_of(*CHAIN)
    run.complete("a")
    assert [type(event) for event in run.verdict()] == [ev.ResultReceived]
    run.complete("b", "c")
    assert run.state.state is TaskState.COMPLETED
    assert run.count(ev.Planned) == 1


def test_without_the_option_nothing_is_asked() -> None:
    run = PlanRun(*CHAIN)
    run.complete("a")
    assert check_of(run) == ""


def test_another_plan_is_a_replan_with_its_reason() -> None:
    run = run_of(*CHAIN)
    run.complete("a")
    run.begin("b")
    event = planned(run.verdict(step("x", "a"), step("y", "x"), reason="it books a flight"))
    assert (event.revision, event.expansion) == (2, False)
    assert event.reason == "the plan no longer serves the query: it books a flight"
    assert run.state.plan is not None
    assert run.state.plan.counters.replans == 1
    assert set(run.state.plan.tasks) == {"a", "x", "y"}
    assert run.state.tasks["r.3"].stopping, "b, which the new plan does not have"
    run.complete("x", "y")
    assert run.state.ending is TaskState.COMPLETED


@pytest.mark.parametrize(
    "steps",
    [
        (step("b", "a"), step("c", "b")),
        (step("a"), step("b", "a"), step("c", "b")),
        (
            SubTask("1", "Do b.", dependencies=("a",), role="writer"),
            SubTask("2", "Do c.", dependencies=("1",), role="writer"),
        ),
    ],
)
def test_a_plan_of_the_same_work_is_aligned(steps: tuple[SubTask, ...]) -> None:
    """A planner of an earlier version replies a plan in any case."""
    run = run_of(*CHAIN)
    run.complete("a")
    assert [type(event) for event in run.verdict(*steps)] == [ev.ResultReceived]


@pytest.mark.parametrize("steps", [(step("c", "a"), step("b", "c")), (step("b", "a"),), (step("a"),)])
def test_a_plan_of_nothing_left_is_aligned_and_other_work_is_not(steps: tuple[SubTask, ...]) -> None:
    run = run_of(*CHAIN)
    run.complete("a")
    is_replanned = any(isinstance(event, ev.Planned) for event in run.verdict(*steps))
    assert is_replanned is (steps != (step("a"),))


def test_a_plan_with_faults_is_repaired() -> None:
    run = run_of(*CHAIN)
    run.complete("a")
    event = planned(run.verdict(step("x", "nowhere"), step("y", "x")))
    assert event.plan.subtasks[1].dependencies == ()
    assert event.changes


@pytest.mark.parametrize("failure", [BROKEN, BUSY])
def test_a_planner_that_fails_leaves_the_plan(failure: Failure) -> None:
    run = run_of(*CHAIN)
    run.complete("a")
    run.begin(check := check_of(run))
    events = run.feed(inp.ResultIn(check, 1, TaskState.FAILED, None, failure))
    assert [type(event) for event in events] == [ev.ResultReceived], "it is not asked again"
    run.complete("b", "c")
    assert run.state.state is TaskState.COMPLETED


def test_a_planner_that_is_lost_again_and_again_leaves_the_plan() -> None:
    run = run_of(*CHAIN)
    run.complete("a")
    check = check_of(run)
    for attempt in (1, 2, 3):
        run.now += 100.0
        run.begin(check)
        run.feed(inp.LostIn(check, attempt, BROKEN))
    assert run.task(check).state is TaskState.FAILED
    assert run.state.ending is None
    run.complete("b", "c")
    assert run.state.state is TaskState.COMPLETED


def test_a_planner_that_asks_a_person_leaves_the_plan() -> None:
    run = run_of(*CHAIN)
    run.complete("a")
    run.begin(check := check_of(run))
    run.feed(inp.ResultIn(check, 1, TaskState.INPUT_REQUIRED, None, input_id="q"))
    assert (run.task(check).state, run.state.clock_stopped_since) == (TaskState.FAILED, 0.0)
    assert run.state.ending is None


def test_a_reply_without_a_verdict_leaves_the_plan() -> None:
    run = run_of(*CHAIN)
    run.complete("a")
    run.begin(check := check_of(run))
    run.feed(inp.PlanIn(check, 1, TaskState.COMPLETED, None, faults=(("", "no plan"),)))
    assert (run.task(check).state, run.count(ev.Planned)) == (TaskState.COMPLETED, 1)


def test_steps_that_complete_during_a_check_have_one_more() -> None:
    run = run_of(*CHAIN, step("d", "c"), step("e", "d"))
    run.complete("a")
    run.begin(first := check_of(run))
    run.complete("b", "c")
    assert check_of(run) == first
    created = run.verdict()[-1]
    assert isinstance(created, ev.TaskCreated)
    assert created.align
    run.verdict()
    assert check_of(run) == "", "nothing has completed since"


def test_steps_that_complete_before_a_check_begins_are_part_of_it() -> None:
    run = run_of(*CHAIN, step("d", "c"), step("e", "d"))
    run.complete("a", "b")
    assert [type(event) for event in run.verdict()] == [ev.ResultReceived]


def test_nothing_is_asked_when_nothing_is_left_to_begin() -> None:
    run = run_of(step("a"), step("b", "a"))
    run.complete("a")
    assert check_of(run) == "", "b starts now"


def test_checks_of_a_run_are_bounded() -> None:
    count = MAX_ALIGNMENT_CHECKS + 5
    run = run_of(*(step(f"s{n}", *([f"s{n - 1}"] if n else [])) for n in range(count)))
    for n in range(count):
        run.complete(f"s{n}")
        if check_of(run):
            run.verdict()
    assert run.state.state is TaskState.COMPLETED
    assert sum(isinstance(event, ev.TaskCreated) and event.align for event, _ in run.log) == MAX_ALIGNMENT_CHECKS


def test_after_the_last_replan_nothing_is_asked() -> None:
    run = run_of(*CHAIN)
    run.complete("a")
    for n in range(MAX_REPLANS):
        run.verdict(step(f"x{n}"), step(f"y{n}", f"x{n}"), step(f"z{n}", f"y{n}"))
        run.complete(f"x{n}")
    assert check_of(run) == ""
    run.complete("y2", "z2")
    assert run.state.plan is not None
    assert run.state.plan.synthesis, "the results that earlier plans left are part of the answer"


def test_a_failure_that_needs_the_planner_stops_the_check() -> None:
    run = run_of(step("a"), step("b", "a", critical=True), step("c", "b"))
    run.complete("a")
    run.begin(check := check_of(run))
    events = run.fail("b")
    assert [type(event) for event in events[-2:]] == [ev.TaskStopping, ev.TaskCreated]
    assert (check_of(run), run.task(check).stopping) == ("", True)
    late = inp.PlanIn(check, 1, TaskState.COMPLETED, None, plan=plan_of(step("x")))
    assert [type(event) for event in run.feed(late)] == [ev.Discarded]
    assert run.state.ending is None
    run.begin("r.6")
    run.reply(step("d", "a"))
    run.complete("d")
    assert run.state.state is TaskState.COMPLETED


def test_an_expansion_stops_a_check_that_waits() -> None:
    run = run_of(step("a"), step("s"), step("b", "a", expand=True), step("c", "b"))
    run.complete("s")
    check = check_of(run)
    run.complete("a")
    assert (check_of(run), run.task(check).state) == ("", TaskState.CANCELED)
    assert run.state.plan is not None
    assert run.state.plan.expanding == ("b",)


def test_an_edit_stops_the_check() -> None:
    run = run_of(*CHAIN)
    run.complete("a")
    run.begin(check := check_of(run))
    assert run.state.plan is not None
    edited = plan_of(step("a"), step("x", "a"))
    run.feed(inp.EditPlan("me", "e", run.state.plan.seq, edited))
    assert (check_of(run), run.task(check).stopping) == ("", True)
    run.feed(inp.ResultIn(check, 1, TaskState.FAILED, None, BROKEN))
    run.complete("x")
    assert run.state.state is TaskState.COMPLETED


def test_the_answer_waits_for_no_check() -> None:
    run = run_of(*CHAIN)
    run.complete("a")
    run.begin(check := check_of(run))
    run.complete("b", "c")
    assert run.state.ending is TaskState.COMPLETED
    run.feed(inp.PlanIn(check, 1, TaskState.COMPLETED, None, plan=plan_of(step("x"))))
    assert run.state.state is TaskState.COMPLETED
    assert run.count(ev.Planned) == 1


def test_a_check_that_waits_ends_with_the_run() -> None:
    run = run_of(*CHAIN)
    run.complete("a")
    check = check_of(run)
    run.complete("b", "c")
    assert (run.state.state, run.task(check).state) == (TaskState.COMPLETED, TaskState.CANCELED)


def test_the_synthesis_stops_the_check() -> None:
    run = run_of(step("a"), step("b", "a"), step("c", "a"), step("d", "c"))
    run.complete("a")
    run.begin(check := check_of(run))
    run.complete("b", "c", "d")
    assert run.task(check).stopping
    assert run.state.plan is not None
    assert run.state.plan.synthesis


def test_a_fork_checks_after_its_first_own_step() -> None:
    source = run_of(*CHAIN, step("d", "c"))
    source.complete("a")
    source.verdict()
    fork = PlanRun(fork_of=source.state, check_alignment=True)
    assert check_of(fork) == ""
    fork.complete("b")
    assert check_of(fork) != ""


@pytest.mark.parametrize("decision", [Decision.APPROVE, Decision.REJECT])
def test_another_plan_waits_for_its_approval(decision: Decision) -> None:
    run = run_of(*CHAIN, rules=(InterceptionRule(Trigger.REPLAN),))
    run.complete("a")
    asked = run.verdict(step("x", "a"), reason="it books a flight")[-1]
    assert isinstance(asked, ev.ApprovalRequested)
    assert "the plan no longer serves the query: it books a flight" in asked.message
    assert run.count(ev.Planned) == 1
    events = run.feed(inp.Respond(asked.input_id, "me", "q", "d", decision=decision))
    if decision is Decision.REJECT:
        assert run.state.ending is TaskState.FAILED
        return
    assert planned(events).reason == "the plan no longer serves the query: it books a flight"
    run.complete("x")
    assert run.state.state is TaskState.COMPLETED


@pytest.mark.parametrize("trigger", [Trigger.ERROR, Trigger.CHECKPOINT])
def test_a_check_without_another_plan_asks_no_person(trigger: Trigger) -> None:
    condition = Condition(role="planner", severity_at_least=1 if trigger is Trigger.ERROR else 0)
    run = run_of(*CHAIN, rules=(InterceptionRule(trigger, condition),))
    run.complete("a")
    if trigger is Trigger.CHECKPOINT:
        assert [type(event) for event in run.verdict()] == [ev.ResultReceived]
        return
    run.begin(check := check_of(run))
    events = run.feed(inp.ResultIn(check, 1, TaskState.FAILED, None, BROKEN))
    assert [type(event) for event in events] == [ev.ResultReceived]
