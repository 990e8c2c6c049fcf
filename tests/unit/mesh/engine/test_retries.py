"""Recovery by the kind of a failure: the table, and a run that follows it."""

from __future__ import annotations

import pytest

from archon.failure_kinds import ErrorSeverity, RetryAdvice
from archon_mesh.engine import Place, Timer
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.retries import ERROR_BUDGET, RECOVERY, Kind, kind_of, next_try
from archon_mesh.engine.state import MAX_RECENT
from archon_mesh.engine.types import Amount, Budget, Failure, TaskState
from tests.unit.mesh.engine.lead_run import GONE, Lead

LATER = Failure("RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED", "too many requests", retry_delay=2.0)
NEVER = Failure("INTERNAL", "INTERNAL", "it broke")


def fail(run: Lead, failure: Failure, number: int = 1, spent: int = 0) -> list[ev.Event]:
    task = run.state.tasks[f"r.{number}"]
    result = inp.ResultIn(task.task_id, task.attempt, TaskState.FAILED, "text", failure, spent=Amount(spent))
    return run.feed(result)


def test_every_kind_has_its_recovery() -> None:
    assert set(RECOVERY) == set(Kind)
    assert all(recovery.tries >= 1 for recovery in RECOVERY.values())


def test_a_failure_is_transient_if_it_advises_a_retry() -> None:
    assert kind_of(LATER) is Kind.TRANSIENT
    assert kind_of(Failure("UNAVAILABLE", "UNAVAILABLE", "no route", retry=RetryAdvice.ELSEWHERE)) is Kind.TRANSIENT
    assert kind_of(Failure("UNAVAILABLE", "UNAVAILABLE", "no route", retry=RetryAdvice.NEVER)) is Kind.PERMANENT
    assert kind_of(NEVER) is Kind.PERMANENT
    assert kind_of(None) is Kind.PERMANENT


def test_the_fourth_failure_of_a_kind_is_raised_to_high() -> None:
    run = Lead()
    run.place(1)
    severities = []
    for number, kind in enumerate(["tool.timeout", "tool.crash", *["tool.timeout"] * 3, "tool.crash"], 2):
        run.delegate(digest=f"task {number}")
        run.place(number)
        (event,) = fail(run, Failure("INTERNAL", "INTERNAL", "no", kind=kind, retry=RetryAdvice.NEVER), number)
        assert isinstance(event, ev.ResultReceived)
        assert event.failure is not None
        severities.append(ErrorSeverity(event.failure.severity).name)
    assert severities == ["MEDIUM", "MEDIUM", "MEDIUM", "MEDIUM", "HIGH", "MEDIUM"]


def test_a_kind_that_has_not_failed_lately_is_not_raised() -> None:
    run = Lead()
    for _ in range(3):
        run.state.remember(Failure("INTERNAL", "INTERNAL", "no answer", kind="tool.timeout"))
    for _ in range(MAX_RECENT):
        run.state.remember(NEVER)
    run.place(1)
    (event,) = fail(run, Failure("INTERNAL", "INTERNAL", "no answer", kind="tool.timeout", retry_delay=0.1))
    assert isinstance(event, ev.Retried)
    assert event.failure.severity == ErrorSeverity.MEDIUM


@pytest.mark.parametrize(
    ("tried", "delay", "due"), [(1, None, 0.5), (2, None, 1.0), (1, 2.0, 2.0), (1, 10_000.0, 30.0), (3, 2.0, None)]
)
def test_pauses_double_or_follow_the_failure_within_bounds(tried: int, delay: float | None, due: float | None) -> None:
    assert next_try(Kind.TRANSIENT, tried, delay, 0.0) == due


def test_a_transient_failure_is_retried_after_its_delay() -> None:
    run = Lead()
    run.place(1)
    (retried,) = fail(run, LATER)
    assert isinstance(retried, ev.Retried)
    assert retried.not_before == run.now + 2.0
    assert fail(run, LATER) == [], "a repeat changes nothing"
    run.place(1)
    assert not run.state.tasks["r.1"].live, "the delay has not passed yet"
    run.after(2.0)
    run.place(1)
    task = run.state.tasks["r.1"]
    assert (task.live, task.attempt, task.losses) == (True, 2, 0)
    run.result()
    assert run.state.state is TaskState.COMPLETED


def test_after_the_last_try_the_run_fails_with_its_failure() -> None:
    run = Lead()
    for _ in range(RECOVERY[Kind.TRANSIENT].tries):
        run.after(60.0)
        run.place(1)
        fail(run, LATER)
    assert run.state.state is TaskState.FAILED
    assert run.state.failure == LATER


def test_any_other_failure_is_final_at_once() -> None:
    run = Lead()
    run.place(1)
    fail(run, NEVER)
    assert run.state.failure == NEVER


def test_a_delegated_task_is_retried_unseen_by_its_parent() -> None:
    run = Lead()
    run.place(1)
    run.delegate()
    run.place(2)
    fail(run, LATER, 2)
    run.after(2.0)
    run.place(2)
    run.result(2)
    assert run.state.tasks["r.2"].state is TaskState.COMPLETED


def test_the_usage_of_a_failed_attempt_is_settled() -> None:
    run = Lead(budget=Budget(800))
    run.place(1)
    fail(run, LATER, spent=30)
    assert (run.state.spent, run.state.tasks["r.1"].reserved) == (Amount(30), Amount(0))


def test_a_run_that_is_cancelled_meanwhile_tries_nothing_again() -> None:
    run = Lead()
    run.place(1)
    fail(run, LATER)
    run.feed(inp.Cancel("me", "enough"))
    assert run.state.state is TaskState.CANCELED
    assert run.opened(Place) == []


def test_a_run_recovers_within_its_error_budget() -> None:
    roles = tuple(f"role{number}" for number in range(ERROR_BUDGET))
    run = Lead(roles)
    for number in range(1, ERROR_BUDGET // 2 + 1):
        for _ in range(2):
            run.place(number)
            run.lose(number)
    assert run.state.recovered == ERROR_BUDGET
    assert run.state.ending is None
    run.place(ERROR_BUDGET)
    run.feed(inp.LostIn(f"r.{ERROR_BUDGET}", 1, GONE))
    assert run.state.failure is not None
    assert run.state.failure.reason == "ERROR_BUDGET_EXHAUSTED"


def test_a_task_that_waits_for_a_retry_keeps_the_runs_timer() -> None:
    run = Lead()
    run.place(1)
    fail(run, LATER)
    assert [effect.not_before - run.now for effect in run.opened(Place)] == [2.0]
    assert len(run.opened(Timer)) == 1
