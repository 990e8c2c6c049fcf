"""Attempts that their instance gives back because it stops on purpose: no loss, no reject, no limit is touched."""

from __future__ import annotations

from dataclasses import replace

import pytest

from archon_mesh.engine import CancelAttempt, RunState, open_effects
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.retries import ERROR_BUDGET, RECOVERY, Kind
from archon_mesh.engine.types import Amount, Budget, Failure, Submission, TaskState
from tests.unit.mesh.engine.checked_step import checked_step

T0 = 1_000.0
STOPPING = Failure("UNAVAILABLE", "DRAINING", "this instance is draining")
GONE = Failure("UNAVAILABLE", "INSTANCE_LOST", "gone")


class Run:
    """A run of one task, driven input by input."""

    def __init__(self, budget: Budget | None = None) -> None:
        self.state, self.now = RunState(), T0
        submission = Submission("r", "default", "", "", "pipeline", ("a",), (), 60.0, None, budget=budget or Budget())
        self.feed(inp.Submit(submission, "owner", 1))

    def feed(self, given: inp.Input) -> list[ev.Event]:
        return checked_step(self.state, given, self.now)

    @property
    def attempt(self) -> int:
        return self.state.tasks["r.1"].attempt

    def dispatch(self) -> None:
        self.now = max(self.now, self.state.tasks["r.1"].not_before)
        assert self.feed(inp.SlotFound("r.1", f"i{self.attempt + 1}"))

    def give_back(self) -> list[ev.Event]:
        return self.feed(inp.LostIn("r.1", self.attempt, GONE, on_purpose=True))


def test_an_attempt_that_is_given_back_is_neither_lost_nor_rejected() -> None:
    run = Run()
    for _ in range(RECOVERY[Kind.LOST].tries + RECOVERY[Kind.REFUSED].tries + ERROR_BUDGET + 1):
        run.dispatch()
        (event,) = run.give_back()
        assert isinstance(event, ev.Rejected)
        assert event.failure.reason == "DRAINING"
    task = run.state.tasks["r.1"]
    assert (task.losses, task.rejects, run.state.recovered, run.state.recent_kinds) == (0, 0, 0, ())
    run.dispatch()
    assert run.feed(inp.ResultIn("r.1", run.attempt, TaskState.COMPLETED, "answer"))
    assert run.state.state is TaskState.COMPLETED


def test_a_reject_of_a_draining_instance_counts_like_no_other_reject() -> None:
    run = Run()
    for _ in range(RECOVERY[Kind.REFUSED].tries + 1):
        run.dispatch()
        run.feed(inp.RejectIn("r.1", run.attempt, STOPPING))
    task = run.state.tasks["r.1"]
    assert (task.state, task.rejects, task.losses) == (TaskState.SUBMITTED, 0, 0)


def test_a_task_that_is_given_back_endlessly_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RECOVERY, Kind.RETURNED, replace(RECOVERY[Kind.RETURNED], tries=50))
    run = Run()
    for _ in range(50):
        run.dispatch()
        run.give_back()
    assert run.state.state is TaskState.FAILED
    assert run.state.failure is not None
    assert run.state.failure.reason == "DRAINING"


def test_a_loss_after_attempts_that_were_given_back_counts_alone() -> None:
    run = Run()
    for _ in range(5):
        run.dispatch()
        run.give_back()
    run.dispatch()
    run.feed(inp.LostIn("r.1", run.attempt, GONE))
    assert (run.state.tasks["r.1"].losses, run.state.recovered) == (1, 1)


def test_what_an_attempt_that_is_given_back_had_reserved_is_charged() -> None:
    run = Run(Budget(tokens=800))
    run.dispatch()
    assert run.state.tasks["r.1"].reserved == Amount(100)
    run.give_back()
    assert (run.state.tasks["r.1"].reserved, run.state.spent) == (Amount(), Amount(100))
    run.dispatch()
    run.feed(inp.RejectIn("r.1", run.attempt, STOPPING))
    assert run.state.spent == Amount(100), "an attempt that never began has spent nothing"


def test_an_attempt_that_is_given_back_is_told_to_stop() -> None:
    run = Run()
    run.dispatch()
    run.give_back()
    assert CancelAttempt("r.1", 1, 1, "i1") in open_effects(run.state)
    assert run.state.holder("r.1", 1) == "i1"


def test_a_cancelled_run_ends_when_its_attempt_is_given_back() -> None:
    run = Run()
    run.dispatch()
    run.feed(inp.Cancel("me", "enough"))
    run.give_back()
    assert run.state.state is TaskState.CANCELED
