"""Plans that are completed while they are executed."""

from __future__ import annotations

import pytest

from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide import plan as decide_plan
from archon_mesh.engine.plan import SubTask
from archon_mesh.engine.types import PLAN_FAILED, Failure, TaskState
from tests.unit.mesh.engine.plan_run import BROKEN, PlanRun, plan_of, step


def place(id: str, *dependencies: str, **fields: object) -> SubTask:
    return step(id, *dependencies, role="", expand=True, **fields)


def asked(run: PlanRun) -> tuple[str, ...]:
    """The steps in whose place the planner plans now."""
    assert run.state.plan is not None
    return run.state.plan.expanding


def planner(run: PlanRun) -> str:
    assert run.state.plan is not None
    return run.state.plan.planner


def expand(run: PlanRun, *steps: SubTask) -> list[ev.Event]:
    run.begin(planner(run))
    return run.reply(*steps)


def test_the_planner_is_asked_once_results_are_there() -> None:
    run = PlanRun(step("list"), place("each", "list"), step("sum", "each"))
    assert run.waiting() == {"list"}
    run.complete("list")
    assert asked(run) == ("each",)
    assert run.waiting() == {planner(run)}
    expand(run, step("first", "list"), step("second", "list"))
    assert run.states() == {"list": "COMPLETED", "first": "SUBMITTED", "second": "SUBMITTED", "sum": "SUBMITTED"}
    run.complete("first")
    assert run.waiting() == {"second"}
    run.complete("second")
    assert run.waiting() == {"sum"}
    run.complete("sum")
    assert run.state.state is TaskState.COMPLETED
    assert run.state.plan is not None
    assert (run.state.plan.counters.replans, run.state.plan.expansions) == (0, 1)


def test_an_expansion_keeps_what_runs_and_what_waits() -> None:
    run = PlanRun(step("list"), step("other"), step("late", "other"), place("each", "list"))
    run.begin("other")
    other, late = run.task("other").task_id, run.task("late").task_id
    run.complete("list")
    events = expand(run, step("each", "list"))
    assert (run.task("other").task_id, run.task("late").task_id) == (other, late)
    assert [event.role for event in events if isinstance(event, ev.TaskEnded)] == ["planner"]
    assert run.task("other").live
    assert run.waiting() == {"each"}


def test_a_reply_cannot_change_what_has_begun() -> None:
    run = PlanRun(step("list"), step("other"), place("each", "list"))
    run.begin("other")
    run.complete("list")
    expand(run, step("other", "list", role="booker"), step("list"), step("each", "other"))
    assert run.state.plan is not None
    assert run.state.plan.steps["other"].role == "writer"
    assert run.state.plan.steps["other"].dependencies == ()
    assert run.count(ev.Dispatched) == 4, "the list, the other step, and the planner twice"


def test_a_step_that_the_reply_changes_is_replaced() -> None:
    run = PlanRun(step("list"), place("if", "list"), step("last", "if"))
    old = run.task("last").task_id
    run.complete("list")
    expand(run, step("then", "list"), step("last", "then"))
    assert run.state.tasks[old].state is TaskState.CANCELED
    run.complete("then", "last")
    assert run.state.state is TaskState.COMPLETED


def test_an_empty_branch_leaves_its_dependencies() -> None:
    run = PlanRun(step("list"), place("if", "list"), step("last", "if"))
    run.complete("list")
    expand(run, step("list"))
    assert run.state.plan is not None
    assert run.state.plan.steps["last"].dependencies == ("list",)
    assert run.waiting() == {"last"}


def test_places_that_are_due_during_an_expansion_follow() -> None:
    run = PlanRun(step("a"), step("b"), place("x", "a"), place("y", "b"))
    run.complete("a")
    assert asked(run) == ("x",)
    run.complete("b")
    assert asked(run) == ("x",)
    expand(run, step("x", "a"))
    assert asked(run) == ("y",)
    expand(run, step("y", "b"))
    run.complete("x", "y")
    assert run.state.plan is not None
    assert run.state.plan.synthesis


def test_a_first_plan_may_begin_with_an_expansion() -> None:
    run = PlanRun(place("x"))
    assert asked(run) == ("x",)
    expand(run, step("x"))
    run.complete("x")
    assert run.state.state is TaskState.COMPLETED


def test_a_place_that_is_left_as_it_was_is_a_fault() -> None:
    run = PlanRun(step("list"), place("each", "list"))
    run.complete("list")
    expand(run, step("list"), place("each", "list"))
    assert run.state.tasks[planner(run)].retries == 1
    assert "still to be expanded" in run.state.tasks[planner(run)].faults[0]


def test_a_failed_step_with_an_error_branch_is_expanded() -> None:
    run = PlanRun(step("book", expand_on_failure=True), step("pay", "book"), step("other"))
    run.fail("book")
    assert asked(run) == ("book",)
    assert run.states()["pay"] == "SUBMITTED", "what takes its place decides"
    expand(run, step("book", expand_on_failure=True), step("again"), step("pay", "again"))
    assert run.states()["book"] == "FAILED"
    run.complete("again", "pay", "other")
    assert run.state.plan is not None
    assert run.state.plan.counters.replans == 0
    assert run.state.plan.counters.consecutive_failures == 0


def test_a_step_in_the_place_of_another_may_fail_too() -> None:
    run = PlanRun(step("list"), place("book", "list"), step("pay", "book"))
    run.complete("list")
    expand(run, step("book", "list", expand_on_failure=True))
    run.fail("book")
    assert asked(run) == ("book",)
    expand(run, step("again", "list"))
    run.complete("again", "pay")
    assert run.state.plan is not None
    assert run.state.plan.synthesis


def test_a_step_that_failed_for_its_input_stays_failed() -> None:
    a, b = step("a", expand_on_failure=True), step("b", "a", expand_on_failure=True, partial_input=True)
    run = PlanRun(a, b)
    run.fail("a")
    expand(run, a, b)
    run.feed(inp.InputMissing(run.task("b").task_id, 1, BROKEN))
    assert asked(run) == ("b",)
    failed = run.task("b").task_id
    expand(run, a, b, step("c", "b", partial_input=True), step("d", "b"), step("e"))
    assert run.task("b").task_id == failed
    assert run.states() == {"a": "FAILED", "b": "FAILED", "c": "SUBMITTED", "d": "CANCELED", "e": "SUBMITTED"}
    assert run.waiting() == {"c", "e"}


def test_a_place_is_due_once_what_it_waits_for_is_skipped() -> None:
    run = PlanRun(step("a"), step("b", "a"), place("c", "b", partial_input=True))
    run.fail("a")
    assert run.states()["b"] == "CANCELED"
    assert asked(run) == ("c",)
    expand(run, step("d", "b", partial_input=True))
    run.complete("d")
    assert run.state.state is TaskState.COMPLETED


def test_after_a_replan_a_step_may_be_expanded_again() -> None:
    def again() -> SubTask:
        return step("a", expand_on_failure=True)

    run = PlanRun(again(), step("other", critical=True))
    run.fail("a")
    expand(run, again(), step("b", "a", partial_input=True))
    run.fail("other")
    run.begin(planner(run))
    run.reply(again(), step("c", "a", partial_input=True))
    run.fail("a")
    assert asked(run) == ("a",), "the step starts again, and so does what is planned for its failure"
    expand(run, again(), step("c", "a", partial_input=True))
    assert run.waiting() == {"c"}


def test_partial_input_waits_for_what_takes_the_place() -> None:
    run = PlanRun(step("book", expand_on_failure=True), step("report", "book", partial_input=True))
    run.fail("book")
    assert run.waiting() == {planner(run)}
    expand(run, step("again"))
    assert run.state.plan is not None
    assert run.state.plan.steps["report"].dependencies == ("again",)
    run.complete("again")
    assert run.waiting() == {"report"}


def test_a_failure_during_an_expansion_is_decided_about() -> None:
    run = PlanRun(step("a"), step("b", critical=True), step("c"), step("d", "c"), place("x", "a"))
    run.begin("b", "c")
    run.complete("a")
    run.fail("b")
    assert run.state.plan is not None
    assert run.state.plan.reason == ""
    expand(run, step("x", "a"))
    assert run.state.plan.reason == "the critical subtask b failed"
    run.begin(planner(run))
    run.reply(step("e"))
    assert set(run.states()) == {"a", "e"}, "a replan replaces what has begun, too"


def test_steps_that_depend_on_a_failure_are_skipped_meanwhile() -> None:
    run = PlanRun(step("a"), step("c"), step("d", "c"), place("x", "a"))
    run.begin("c")
    run.complete("a")
    run.fail("c")
    assert run.states()["d"] == "CANCELED"
    expand(run, step("x", "a"), step("y", "c"))
    assert run.states() == {"a": "COMPLETED", "c": "FAILED", "d": "CANCELED", "x": "SUBMITTED", "y": "CANCELED"}
    run.complete("x")
    assert run.state.plan is not None
    assert run.state.plan.synthesis


def test_expansions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide_plan, "MAX_EXPANSIONS", 5)  # 200 plans take seconds
    run = PlanRun(place("x0"))
    for number in range(1, 6):
        assert run.state.ending is None
        expand(run, place(f"x{number}"))
    assert run.state.failure is not None
    assert run.state.failure.reason == PLAN_FAILED
    assert "expanded 5 times" in run.state.failure.message


def test_an_edit_may_remove_a_place_that_is_expanded() -> None:
    run = PlanRun(step("list"), step("other"), place("each", "list"))
    run.complete("list")
    plan = run.state.plan
    assert plan is not None
    kept = tuple(plan.steps[id_] for id_ in ("list", "other"))
    run.feed(inp.EditPlan("me", "e1", plan.seq, plan_of(*kept)))
    expand(run, step("new", "list"))
    assert set(run.states()) == {"list", "other", "new"}


@pytest.mark.parametrize("lost", [False, True])
def test_a_planner_that_fails_at_an_expansion_fails_the_run(lost: bool) -> None:
    run = PlanRun(step("list"), place("each", "list"))
    run.complete("list")
    run.begin(planner(run))
    task = run.state.tasks[planner(run)]
    if lost:
        run.feed(inp.LostIn(task.task_id, task.attempt, Failure("UNAVAILABLE", "INSTANCE_LOST", "gone")))
        assert run.waiting() == {task.task_id}
        expand(run, step("each", "list"))
        run.complete("each")
        assert run.state.state is TaskState.COMPLETED
    else:
        run.fail(task.task_id)
        assert run.state.state is TaskState.FAILED
