"""The averages of a role's tasks, by which plans are estimated."""

from __future__ import annotations

from typing import Any

import pytest

from archon_mesh.engine import RunState
from archon_mesh.engine import events as ev
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import Amount, TaskState
from archon_services.orchestrator.observability import role_averages
from archon_services.orchestrator.observability.role_averages import MIN_TASKS, RoleAverages


def completed(averages: RoleAverages, role: str, seconds: float, cost: int = 0, **fields: Any) -> None:
    run = RunState()
    run.tasks["t"] = Task("t", role, ())
    run.tasks["t"].start_time, run.tasks["t"].end_time = 100.0, 100.0 + seconds
    values: dict[str, Any] = {"state": TaskState.COMPLETED, "attempt": 1, **fields}
    event = ev.ResultReceived("t", role=role, payload=None, spent=Amount(10, cost), **values)
    averages.note([event], run)


def test_a_few_tasks_are_no_average() -> None:
    averages = RoleAverages()
    for _ in range(MIN_TASKS - 1):
        completed(averages, "cook", 2.0)
    assert averages.of("cook") is None
    completed(averages, "cook", 2.0)
    assert averages.of("cook") is not None
    assert averages.of("waiter") is None


def test_time_and_cost_are_averaged() -> None:
    averages = RoleAverages()
    for seconds, cost in ((1.0, 10), (2.0, 20), (3.0, 60)):
        completed(averages, "cook", seconds, cost)
    average = averages.of("cook")
    assert average is not None
    assert average.seconds == pytest.approx(2.0)
    assert average.cost_micro_usd == pytest.approx(30.0)


def test_new_tasks_count_more_than_old_ones() -> None:
    averages = RoleAverages()
    for seconds in (*[1.0] * 100, *[11.0] * 20):
        completed(averages, "cook", seconds)
    average = averages.of("cook")
    assert average is not None
    assert average.seconds > 9


@pytest.mark.parametrize("fields", [{"state": TaskState.FAILED}, {"attempt": 0}])
def test_failed_and_reused_tasks_do_not_count(fields: dict[str, Any]) -> None:
    averages = RoleAverages()
    for _ in range(MIN_TASKS):
        completed(averages, "cook", 2.0, **fields)
    assert averages.of("cook") is None


def test_the_number_of_roles_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(role_averages, "MAX_ROLES", 1)
    averages = RoleAverages()
    for role in ("cook", "waiter"):
        for _ in range(MIN_TASKS):
            completed(averages, role, 2.0)
    assert averages.of("cook") is not None
    assert averages.of("waiter") is None
