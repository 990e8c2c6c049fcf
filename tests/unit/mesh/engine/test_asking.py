"""Questions to people that an attempt asks while it continues."""

from __future__ import annotations

import pytest

from archon_mesh.engine import CancelAttempt, GiveInput, Place, Timer, open_effects
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.approval import MAX_QUESTIONS
from archon_mesh.engine.fold.apply import fold
from archon_mesh.engine.types import Failure, TaskState
from tests.unit.mesh.engine.lead_run import T0, Lead
from tests.unit.mesh.engine.plan_run import PlanRun, step
from tests.unit.mesh.engine.test_human_input import respond


def ask(run: Lead, number: int = 1, name: str = "a1", sequence: int = 0) -> list[ev.Event]:
    task = run.state.tasks[f"r.{number}"]
    return run.feed(inp.AskIn(task.task_id, task.attempt, sequence or task.applied + 1, name, "?"))


def working() -> Lead:
    run = Lead()
    run.place(1)
    return run


def test_the_attempt_continues_and_is_sent_the_answer() -> None:
    run = working()
    (event,) = ask(run)
    assert isinstance(event, ev.InputRequested)
    task = run.state.tasks["r.1"]
    assert (task.live, task.state, task.question) == (True, TaskState.INPUT_REQUIRED, "r.1/a1")
    assert run.state.state is TaskState.INPUT_REQUIRED
    assert run.opened(Timer) == [], "no clock runs"
    assert ask(run, sequence=1) == [], "a frame that comes again asks once"
    respond(run, "r.1/a1")
    assert (task.live, task.state, task.question) == (True, TaskState.WORKING, "")
    assert [effect.input_id for effect in run.opened(GiveInput)] == ["r.1/a1"]
    assert run.opened(Timer) != []
    run.result()
    assert run.state.ended
    assert fold((event, run.now) for event in run.log) == run.state


def test_a_lost_attempt_leaves_its_question_and_the_next_one_its_answer() -> None:
    run = working()
    ask(run)
    run.lose()
    task = run.state.tasks["r.1"]
    assert (task.live, task.state) == (False, TaskState.INPUT_REQUIRED)
    assert run.opened(Place) == [], "the next attempt waits for the answer"
    respond(run, "r.1/a1")
    assert [effect.task_id for effect in run.opened(Place)] == ["r.1"]
    run.place(1)
    assert (task.inputs, task.answers, run.opened(GiveInput)) == (("!",), {}, [])


def test_the_clock_goes_on_when_a_task_ends_with_its_question_open() -> None:
    run = Lead(("lead", "last"))
    run.place(1)
    ask(run)
    run.after(5.0)
    assert run.opened(Timer) == []
    events = run.result()
    assert [type(event) for event in events] == [ev.ResultReceived]
    assert run.opened(Timer) == [Timer(T0 + 605.0)], "the time of the question does not count"


def test_the_clock_goes_on_when_a_step_that_asks_is_replaced() -> None:
    run = PlanRun(step("a"), step("b", critical=True), step("c", "a"))
    run.begin("a")
    task = run.task("a")
    run.feed(inp.ResultIn(task.task_id, 1, TaskState.INPUT_REQUIRED, None, input_id="q"))
    run.fail("b")
    assert run.state.plan is not None
    run.begin(run.state.plan.planner)
    run.now += 5.0
    assert run.state.clock_stopped_since
    run.reply(step("d"))
    assert (task.ended, run.state.clock_stopped_since) == (True, 0.0)
    assert Timer(run.state.deadline) in open_effects(run.state)


def test_a_question_is_withdrawn_when_its_task_ends_or_is_retried() -> None:
    for failure in (None, Failure("UNAVAILABLE", "MODEL_UNAVAILABLE", "503"), Failure("INTERNAL", "INTERNAL", "bug")):
        run = working()
        ask(run)
        state = TaskState.FAILED if failure else TaskState.COMPLETED
        run.feed(inp.ResultIn("r.1", 1, state, None, failure))
        assert run.state.tasks["r.1"].question == ""
        assert run.state.clock_stopped_since == 0.0
        assert respond(run, "r.1/a1") == []


def test_the_question_of_a_cancelled_delegation_does_not_stop_the_clock() -> None:
    for live in (True, False):
        run = working()
        run.delegate()
        run.place(2)
        if live:
            ask(run, 2)
        else:
            run.feed(inp.ResultIn("r.2", 1, TaskState.INPUT_REQUIRED, "?", input_id="a1"))
        assert run.state.clock_stopped_since
        run.cancel("d1")
        if live:
            run.result(2, TaskState.CANCELED)
        assert run.state.tasks["r.2"].state is TaskState.CANCELED
        assert (run.state.clock_stopped_since, run.state.state) == (0.0, TaskState.WORKING)
        assert respond(run, "r.2/a1") == []


@pytest.mark.parametrize(("name", "asked", "message"), [("", 0, "needs an input_id"), ("x", MAX_QUESTIONS, "at most")])
def test_a_question_that_cannot_be_asked_fails_the_task(name: str, asked: int, message: str) -> None:
    run = working()
    for number in range(asked):
        ask(run, name=f"a{number}")
        respond(run, f"r.1/a{number}")
    ask(run, name=name)
    failure = run.state.tasks["r.1"].failure
    assert failure is not None and message in failure.message
    assert run.state.state is TaskState.FAILED


def test_a_second_question_at_a_time_fails_the_task_and_stops_its_attempt() -> None:
    run = Lead(("a", "b"))
    run.place(1, 2)
    ask(run)
    ask(run, name="a2")
    assert run.state.tasks["r.1"].state is TaskState.FAILED
    assert {effect.task_id for effect in run.opened(CancelAttempt)} == {"r.1", "r.2"}


def test_a_stopping_attempt_asks_nothing() -> None:
    run = working()
    run.state.tasks["r.1"].stopping = True
    assert ask(run) == []
