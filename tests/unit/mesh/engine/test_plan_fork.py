"""A fork of a run with a plan continues with the plan: what has completed is kept, and nothing of it is planned anew."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from archon_mesh.core.people import Decision, QuestionKind
from archon_mesh.engine import RunState
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.fork import reusable_plan
from archon_mesh.engine.plan import SubTask
from archon_mesh.engine.types import Item, TaskState
from tests.unit.mesh.engine.checked_step import checked_step
from tests.unit.mesh.engine.plan_run import T0, PlanRun, step
from tests.unit.mesh.engine.test_plan_properties import MOVES, PLANS, _finish, play


def test_a_fork_begins_where_a_failed_run_ended() -> None:
    source = PlanRun(step("a"), step("b", "a", critical=True), step("c", "b"))
    source.complete("a")
    source.fail("b")
    source.feed(inp.Cancel("me", ""))
    fork = PlanRun(fork_of=source.state)
    assert fork.states() == {"a": "COMPLETED", "b": "SUBMITTED", "c": "SUBMITTED"}
    assert fork.waiting() == {"b"}
    assert fork.task("a").payload == "answer of a"
    assert fork.count(ev.Planned) == 1
    fork.complete("b", "c")
    assert fork.state.state is TaskState.COMPLETED
    assert fork.task("c").payload == "answer of c"


def test_a_fork_of_a_completed_run_has_its_answer_at_once() -> None:
    source = PlanRun(step("a"), step("b", "a"))
    source.complete("a", "b")
    fork = PlanRun(fork_of=source.state)
    assert fork.state.state is TaskState.COMPLETED
    assert fork.count(ev.Dispatched) == 0


def test_an_answer_that_combines_the_results_is_kept() -> None:
    source = PlanRun(step("a"), step("b"))
    source.complete("a", "b")
    assert source.state.plan is not None
    source.complete(source.state.plan.synthesis)
    assert source.state.ended
    fork = PlanRun(fork_of=source.state)
    assert fork.state.state is TaskState.COMPLETED
    assert fork.count(ev.Dispatched) == 0


def test_the_plan_of_the_last_replan_is_kept() -> None:
    source = PlanRun(step("a"), step("b", "a", critical=True))
    source.complete("a")
    source.fail("b")
    assert source.state.plan is not None
    source.begin(source.state.plan.planner)
    source.reply(step("c", "a"), step("d", "c"))
    source.complete("c")
    fork = PlanRun(fork_of=source.state)
    assert fork.states() == {"a": "COMPLETED", "c": "COMPLETED", "d": "SUBMITTED"}
    assert fork.state.plan is not None
    assert fork.state.plan.counters.replans == 0


def test_a_place_that_is_due_is_expanded_in_the_fork() -> None:
    source = PlanRun(step("a"), step("rest", "a", expand=True), step("c", "rest"))
    source.complete("a")
    fork = PlanRun(fork_of=source.state)
    assert fork.state.plan is not None
    assert fork.state.plan.expanding == ("rest",)
    fork.begin(fork.state.plan.planner)
    fork.reply(step("new", "a"))
    fork.complete("new", "c")
    assert fork.state.state is TaskState.COMPLETED


def test_a_failed_step_whose_place_others_have_taken_is_not_executed_again() -> None:
    source = PlanRun(step("book", expand_on_failure=True), step("pay", "book"))
    source.fail("book")
    assert source.state.plan is not None
    source.begin(source.state.plan.planner)
    source.reply(step("hostel"))
    source.complete("hostel")
    fork = PlanRun(fork_of=source.state)
    assert fork.states() == {"pay": "SUBMITTED", "hostel": "COMPLETED"}
    assert fork.waiting() == {"pay"}


def test_a_run_without_a_plan_is_planned() -> None:
    fork = PlanRun(fork_of=PlanRun().state)
    assert fork.waiting() == {"f.1"}
    fork.begin("f.1")
    fork.reply(step("a"))
    fork.complete("a")
    assert fork.state.ended


def test_items_of_a_step_are_published_again() -> None:
    source = PlanRun(step("a"), step("b", "a"))
    source.begin("a")
    task = source.task("a")
    items = (Item(2, "history"),)
    source.feed(inp.ResultIn(task.task_id, 1, TaskState.COMPLETED, "answer of a", publish=True, items=items))
    fork = PlanRun(fork_of=source.state)
    (item,) = fork.task("a").items
    assert (item.item.payload, fork.count(ev.ItemPublished)) == ("history", 1)


def test_an_answer_of_a_person_is_given_to_the_step_before_it_asks() -> None:
    source = PlanRun(step("a"))
    plan = reusable_plan(source.state, None)
    assert source.state.submission is not None
    given = inp.ReusedInput(
        "writer", "a", "q1", "ann", "", "00", QuestionKind.APPROVAL, Decision.APPROVE, True, "the question", "yes"
    )
    run = RunState()
    checked_step(run, inp.Submit(source.state.submission, "owner", 1, (), plan, (given,)), T0)
    (task,) = (task for task in run.tasks.values() if task.step_id == "a")
    assert (task.questions, task.inputs, task.checkpoint) == (("the question",), ("yes",), "the question")
    assert (task.question, run.ready(task)) == ("", True)
    (closed,) = run.closed_questions
    assert (closed.input_id, closed.identity) == (f"{task.task_id}/q1", "ann")
    assert not run.clock_stopped_since


@given(PLANS, st.lists(MOVES, max_size=30), st.lists(MOVES, max_size=10))
def test_a_fork_of_any_course_repeats_no_completed_step_and_ends(
    first: list[SubTask], moves: list[tuple[str, object]], more: list[tuple[str, object]]
) -> None:
    source = PlanRun()
    source.begin("r.1")
    for move, argument in [("reply", first), *moves]:
        play(source, move, argument)
    fork = PlanRun(fork_of=source.state)
    plan = source.state.plan
    assert plan is not None
    assert fork.state.plan is not None
    for id_, task_id in plan.tasks.items():
        if source.state.tasks[task_id].state is TaskState.COMPLETED:
            assert fork.task(id_).state is TaskState.COMPLETED
    finished = {task.task_id for task in fork.state.tasks.values() if task.ended}
    for move, argument in more:
        play(fork, move, argument)
    _finish(fork)
    assert fork.state.ended
    again = [event for event, _ in fork.log if isinstance(event, ev.Dispatched) and event.task_id in finished]
    assert not again
