"""The error budget of an orchestrator: new runs are refused while most attempts fail."""

from __future__ import annotations

import pytest

from archon.errors import ResourceExhausted
from archon_mesh.engine import events as ev
from archon_mesh.engine.types import Failure, TaskState
from archon_services.orchestrator.runs.error_budget import ErrorBudget

GONE = ev.Lost("r.1", 1, "i", Failure("UNAVAILABLE", "INSTANCE_LOST", "gone"))
REFUSED = ev.Retried("r.1", 1, "a", Failure("UNAVAILABLE", "UNAVAILABLE", "refused", kind="model.provider"), 1.0)
CRASHED = ev.ResultReceived(
    "r.1", 1, "a", TaskState.FAILED, None, Failure("INTERNAL", "INTERNAL", "x", kind="tool.crash")
)
DONE = ev.ResultReceived("r.1", 1, "a", TaskState.COMPLETED, None)


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def budget(clock: Clock) -> ErrorBudget:
    return ErrorBudget(10, clock)


def test_above_the_limit_new_runs_are_refused_until_a_minute_has_passed(budget: ErrorBudget, clock: Clock) -> None:
    budget.note([GONE] * 10)
    budget.check()
    budget.note([GONE])
    with pytest.raises(ResourceExhausted) as refused:
        budget.check()
    assert (refused.value.reason, refused.value.retry_delay) == ("ERROR_BUDGET_EXHAUSTED", 5.0)
    assert refused.value.metadata == {"class": "collaboration", "failed": "11", "limit": "10"}
    clock.now += 59.0
    with pytest.raises(ResourceExhausted):
        budget.check()
    clock.now += 1.0
    budget.check()


def test_classes_are_counted_apart(budget: ErrorBudget) -> None:
    budget.note([GONE] * 10 + [REFUSED] * 10)
    budget.check()


def test_if_most_attempts_succeed_no_run_is_refused(budget: ErrorBudget) -> None:
    budget.note([DONE] * 20 + [GONE] * 20)
    budget.check()
    budget.note([GONE])
    with pytest.raises(ResourceExhausted):
        budget.check()


def test_failures_of_tools_and_requests_do_not_count(budget: ErrorBudget) -> None:
    budget.note([CRASHED] * 1_000)
    budget.check()


def test_without_a_limit_nothing_is_refused(clock: Clock) -> None:
    budget = ErrorBudget(0, clock)
    budget.note([GONE] * 10_000)
    budget.check()
