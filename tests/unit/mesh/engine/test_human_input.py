"""Questions to people, pauses and checkpoints: which clocks and tasks stop meanwhile."""

from __future__ import annotations

import pytest

from archon_mesh.engine import Place, Timer
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.approval import MAX_QUESTIONS
from archon_mesh.engine.types import Amount, Budget, TaskState
from tests.unit.mesh.engine.lead_run import Lead


def ask(run: Lead, number: int = 1, name: str = "q1", spent: Amount | None = None) -> list[ev.Event]:
    task = run.state.tasks[f"r.{number}"]
    question = inp.ResultIn(
        task.task_id, task.attempt, TaskState.INPUT_REQUIRED, "?", input_id=name, spent=spent or Amount(0)
    )
    return run.feed(question)


def respond(run: Lead, question: str, request_id: str = "", digest: str = "00") -> list[ev.Event]:
    return run.feed(inp.Respond(question, "me", request_id, digest, "!"))


def places(run: Lead) -> list[str]:
    return sorted(effect.task_id for effect in run.opened(Place))


def test_contract_rule_7_a_question_ends_the_attempt() -> None:
    run = Lead()
    run.place(1)
    (event,) = ask(run)
    assert isinstance(event, ev.InputRequested)
    task = run.state.tasks["r.1"]
    assert (task.live, task.state, task.question) == (False, TaskState.INPUT_REQUIRED, "r.1/q1")
    assert run.state.state is TaskState.INPUT_REQUIRED
    assert places(run) == [], "no task waits for an instance"
    assert ask(run) == [], "a repeat changes nothing"


def test_contract_rule_7_the_answer_comes_with_a_new_attempt() -> None:
    run = Lead()
    run.place(1)
    ask(run)
    assert respond(run, "r.1/nothing") == []
    (event,) = respond(run, "r.1/q1", "q")
    assert isinstance(event, ev.InputGiven)
    assert run.state.state is TaskState.WORKING
    assert places(run) == ["r.1"]
    run.place(1)
    task = run.state.tasks["r.1"]
    assert (task.attempt, task.losses, task.inputs) == (2, 0, ("!",))
    assert respond(run, "r.1/q1", "q") == [], "the question is answered already"
    assert run.state.responses == {"q": "00"}
    ask(run, name="q2")
    respond(run, "r.1/q2")
    run.place(1)
    assert task.inputs == ("!", "!")
    run.result()
    assert run.state.ended
    assert run.state.failure is None


def test_contract_rule_7_a_question_stops_run_and_task_clocks() -> None:
    run = Lead()
    run.place(1)
    run.delegate(timeout=60.0)
    run.place(2)
    run.after(50.0)
    ask(run, 2)
    assert run.opened(Timer) == []
    assert run.after(10_000.0) == []
    respond(run, "r.2/q1")
    assert sorted(alarm.at - run.now for alarm in run.opened(Timer)) == [10.0, 550.0]
    run.place(2)
    (stopping,) = run.after(10.0)
    assert isinstance(stopping, ev.TaskStopping)


def test_the_usage_of_an_attempt_that_asks_is_settled() -> None:
    run = Lead(budget=Budget(800))
    run.place(1)
    ask(run, spent=Amount(30))
    assert run.state.spent == Amount(30)
    assert run.state.tasks["r.1"].reserved == Amount(0)


@pytest.mark.parametrize("end", ["cancel", "parent"])
def test_a_question_ends_with_its_run_or_its_parent(end: str) -> None:
    run = Lead()
    run.place(1)
    run.delegate()
    run.place(2)
    ask(run, 2)
    if end == "cancel":
        run.feed(inp.Cancel("me", "enough"))
    run.result(1)
    assert run.state.tasks["r.2"].state is TaskState.CANCELED
    assert run.state.ended
    assert respond(run, "r.2/q1") == []


def test_a_question_without_id_or_above_the_limit_fails() -> None:
    run = Lead()
    run.place(1)
    ask(run, name="")
    assert run.state.state is TaskState.FAILED
    run = Lead()
    for number in range(MAX_QUESTIONS):
        run.place(1)
        ask(run, name=f"q{number}")
        respond(run, f"r.1/q{number}")
    run.place(1)
    ask(run, name="one more")
    assert run.state.failure is not None
    assert run.state.state is TaskState.FAILED


def test_a_paused_run_dispatches_nothing_and_keeps_attempts() -> None:
    run = Lead(("a", "b", "c"), edges=(("a", "b"),))
    run.place(1)
    (paused,) = run.feed(inp.Pause("me"))
    assert paused == ev.Paused("me")
    assert run.feed(inp.Pause("you")) == []
    assert places(run) == []
    run.result(1)
    run.place(2, 3)
    assert not run.state.tasks["r.2"].live
    assert run.after(10_000.0) == [], "its clock stands"
    assert run.feed(inp.Resume("me")) == [ev.Resumed("me")]
    assert run.feed(inp.Resume("me")) == []
    assert places(run) == ["r.2", "r.3"]
    assert [alarm.at - run.now for alarm in run.opened(Timer)] == [600.0]


def test_a_paused_run_with_a_question_waits_for_both() -> None:
    run = Lead()
    run.place(1)
    run.feed(inp.Pause("me"))
    run.after(5.0)
    ask(run)
    run.after(5.0)
    run.feed(inp.Resume("me"))
    run.after(5.0)
    assert run.opened(Timer) == []
    respond(run, "r.1/q1")
    assert [alarm.at - run.now for alarm in run.opened(Timer)] == [600.0]


@pytest.mark.parametrize("why", ["paused", "waited"])
def test_a_run_that_is_stopped_for_too_long_fails(why: str) -> None:
    run = Lead(pause_timeout=100.0)
    run.place(1)
    run.after(7.0)
    if why == "paused":
        run.feed(inp.Pause("me"))
    else:
        ask(run)
    assert [alarm.at - run.now for alarm in run.opened(Timer)] == [100.0]
    assert run.after(99.0) == []
    run.after(1.0)
    if why == "paused":
        run.result(1)
    assert run.state.state is TaskState.FAILED
    assert run.state.failure is not None
    assert (run.state.failure.code, run.state.failure.reason) == ("DEADLINE_EXCEEDED", "PAUSE_EXPIRED")
    assert why in run.state.failure.message


def test_each_pause_of_a_run_has_its_time_anew() -> None:
    run = Lead(pause_timeout=100.0)
    run.place(1)
    for _ in range(3):
        run.feed(inp.Pause("me"))
        run.after(90.0)
        run.feed(inp.Resume("me"))
    assert not run.state.ended


def test_a_paused_run_can_be_cancelled_an_ended_not_paused() -> None:
    run = Lead()
    run.place(1)
    run.feed(inp.Pause("me"))
    run.feed(inp.Cancel("me", "enough"))
    assert run.feed(inp.Resume("me")) == []
    run.result(1)
    assert run.state.state is TaskState.CANCELED
    assert run.feed(inp.Pause("me")) == []


def test_the_last_checkpoint_counts_and_is_the_current_attempts() -> None:
    run = Lead()
    run.place(1)
    run.feed(inp.CheckpointIn("r.1", 1, 1, payload="first"))
    run.feed(inp.CheckpointIn("r.1", 1, 2, payload="second"))
    run.lose(1)
    assert run.feed(inp.CheckpointIn("r.1", 1, 3, payload="of an attempt that is over")) == []
    run.place(1)
    task = run.state.tasks["r.1"]
    assert (task.checkpoint, task.applied) == ("second", 0)
    recorded, taken = run.feed(inp.CheckpointIn("r.1", 2, 3, 2, payload="third"))
    assert recorded == ev.Recorded("r.1", 2, 2)
    assert isinstance(taken, ev.CheckpointTaken)
    assert (task.checkpoint, task.applied) == ("third", 3)
