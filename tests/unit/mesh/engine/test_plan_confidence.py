"""A plan whose planner doubts a step that is next is made anew before the step starts."""

from __future__ import annotations

from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.plan import MAX_REPLANS
from tests.unit.mesh.engine.plan_run import PlanRun, plan_of, step


def planner_of(run: PlanRun) -> str:
    assert run.state.plan is not None
    return run.state.plan.planner


def test_a_doubtful_first_step_waits_for_another_plan() -> None:
    run = PlanRun()
    run.begin("r.1")
    run.reply(step("a"), step("b", confidence=0.2), step("c", "b"))
    assert run.waiting() == {"a", planner_of(run)}, "what is not doubted starts"
    assert run.state.plan is not None
    assert run.state.plan.reason == "the confidence is 0.20, below 0.30"
    run.begin(planner_of(run))
    run.reply(step("b2", confidence=0.9))
    assert run.waiting() == {"b2"}, "what had not begun is replaced"


def test_a_step_is_doubted_when_its_dependencies_are_done() -> None:
    run = PlanRun(step("a"), step("d"), step("b", "a", confidence=0.1), step("c", "b"))
    assert planner_of(run) == ""
    run.begin("d")
    *_, created = run.complete("a")
    assert isinstance(created, ev.TaskCreated)
    assert (created.role, created.step_id) == ("planner", "")
    assert run.waiting() == {planner_of(run)}, "d goes on, and b is held"
    run.begin(planner_of(run))
    run.reply(step("d"), step("e", "a"))
    run.complete("e")
    assert run.states() == {"a": "COMPLETED", "d": "WORKING", "e": "COMPLETED"}


def test_a_doubtful_step_starts_if_no_replan_is_left() -> None:
    run = PlanRun()
    run.begin("r.1")
    for _ in range(MAX_REPLANS):
        run.reply(step("a", confidence=0.0))
        run.begin(planner_of(run))
    run.reply(step("a", confidence=0.0))
    assert planner_of(run) == ""
    assert run.waiting() == {"a"}
    run.complete("a")
    assert run.state.ended


def test_a_confidence_that_suffices_changes_nothing() -> None:
    run = PlanRun(step("a", confidence=0.3), step("b", "a", confidence=0.31))
    run.complete("a")
    assert run.count(ev.Planned) == 1
    assert run.waiting() == {"b"}


def test_an_edit_is_not_doubted() -> None:
    run = PlanRun(step("a"), step("b"))
    assert run.state.plan is not None
    run.feed(inp.EditPlan("ann", "e1", run.state.plan.seq, plan_of(step("c", confidence=0.1))))
    assert planner_of(run) == ""
    assert run.waiting() == {"c"}
