"""Which events say something about the instances of a run."""

from __future__ import annotations

from typing import Any

import pytest

from archon.api.agent.v1 import agent_pb2
from archon_mesh.engine import RunState
from archon_mesh.engine import events as ev
from archon_mesh.engine.plan import SubTask
from archon_mesh.engine.plan_state import PlanState
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import NOTHING, Amount, Failure, TaskState
from archon_services.orchestrator.track_records.observations import Observation, is_own, observe


def run_of(*tasks: Task, steps: tuple[SubTask, ...] = ()) -> RunState:
    run = RunState(tasks={task.task_id: task for task in tasks})
    if steps:
        run.plan = PlanState(steps={step.id: step for step in steps}, tasks={t.step_id: t.task_id for t in tasks})
    return run


def task(task_id: str, instance_id: str = "cook-1", seconds: float = 2.0, **fields: Any) -> Task:
    values: dict[str, Any] = {"start_time": 100.0, "end_time": 100.0 + seconds, "attempt": 1, **fields}
    return Task(task_id, "cook", instance_id=instance_id, **values)


def result(task_id: str = "t", *, attempt: int = 1, cost: int = 0, **fields: Any) -> ev.ResultReceived:
    values: dict[str, Any] = {"state": TaskState.COMPLETED, "payload": None, **fields}
    return ev.ResultReceived(task_id, attempt, "cook", spent=Amount(10, cost), **values)


def failure(reason: str, code: str = "UNAVAILABLE", kind: str = "") -> Failure:
    return Failure(code, reason, "text", kind=kind)


def test_a_completed_attempt_has_its_time_and_cost() -> None:
    observed = observe([result(cost=7)], run_of(task("t")))
    assert observed == [Observation("cook", "cook-1", completed=True, seconds=2.0, cost=7)]


def test_reused_and_cancelled_results_say_nothing() -> None:
    run = run_of(task("t"))
    assert observe([result(attempt=0)], run) == []
    assert observe([result(state=TaskState.CANCELED, failure=failure("NOT_NEEDED", "CANCELLED"))], run) == []


@pytest.mark.parametrize(
    ("found", "own"),
    [
        (failure("INTERNAL", "INTERNAL"), True),
        (failure("UNAVAILABLE"), True),
        (failure("INSTANCE_LOST"), True),
        (failure("STEP_TIMEOUT", "DEADLINE_EXCEEDED"), True),
        (failure("DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED"), True),
        (failure("", "UNKNOWN", "model.refusal"), True),
        (failure("", "UNKNOWN", "tool.crash"), True),
        (failure("RUN_TIMEOUT", "DEADLINE_EXCEEDED"), False),
        (failure("DRAINING"), False),
        (failure("NO_CAPACITY", "RESOURCE_EXHAUSTED"), False),
        (failure("CANCELLED", "CANCELLED"), False),
        (failure("BUDGET_EXHAUSTED", "RESOURCE_EXHAUSTED"), False),
        (failure("INVALID_ARGUMENT", "INVALID_ARGUMENT"), False),
        (failure("CONVERSATION_MOVED", "ABORTED"), False),
        (failure("UNDECIDED", "FAILED_PRECONDITION"), False),
    ],
)
def test_an_instance_is_judged_by_its_own_failures_only(found: Failure, own: bool) -> None:
    assert is_own(found) is own
    run = run_of(task("t", failed_instance="cook-2"))
    expected = [Observation("cook", "cook-1", failed=True)] if own else []
    assert observe([result(state=TaskState.FAILED, failure=found)], run) == expected
    retried = ev.Retried("t", 1, "cook", found, 0.0, NOTHING, None)
    assert observe([retried], run) == ([Observation("cook", "cook-2", failed=True)] if own else [])


def test_a_lost_instance_has_failed_and_one_that_drains_has_not() -> None:
    run = run_of(task("t", instance_id=""))
    assert observe([ev.Lost("t", 1, "cook-1", failure("INSTANCE_LOST"))], run) == [
        Observation("cook", "cook-1", failed=True)
    ]
    assert observe([ev.Rejected("t", 1, "cook-1", failure("DRAINING"), 0.0)], run) == []


def test_an_attempt_that_was_too_slow_has_failed() -> None:
    timeout = failure("STEP_TIMEOUT", "DEADLINE_EXCEEDED")
    run = run_of(task("t", attempt=2, abandoned=((2, "cook-2"),)))
    run.tasks["t"].instance_id = "cook-2"
    assert observe([ev.TaskEnded("t", "cook", 2, TaskState.FAILED, timeout)], run) == [
        Observation("cook", "cook-2", failed=True)
    ]
    assert observe([ev.TaskEnded("t", "cook", 2, TaskState.CANCELED, failure("CANCELLED", "CANCELLED"))], run) == []


@pytest.mark.parametrize(
    ("seconds", "cost", "state", "kept"),
    [
        (2.0, 50, TaskState.COMPLETED, True),
        (4.0, 50, TaskState.COMPLETED, False),
        (2.0, 51, TaskState.COMPLETED, False),
        (2.0, 50, TaskState.FAILED, False),
    ],
)
def test_a_bid_is_kept_within_its_time_and_cost(seconds: float, cost: int, state: TaskState, kept: bool) -> None:
    award = agent_pb2.TaskResult()
    award.resolution.rule, award.resolution.winner_step_id = "award", "bid"
    vote = award.resolution.votes.add(step_id="bid", role="cook")
    vote.bid.cost_micro_usd, vote.bid.seconds = 50, 3.0
    steps = (SubTask("bid", ""), SubTask("award", ""), SubTask("do", "", assigned_by="award"))
    run = run_of(
        task("b", step_id="bid"),
        task("a", step_id="award", payload=award),
        task("t", seconds=seconds, step_id="do"),
        steps=steps,
    )
    given = result(cost=cost, state=state, failure=failure("INTERNAL", "INTERNAL"))
    assert observe([given], run)[1:] == [Observation("cook", "cook-1", has_bid=True, bid_kept=kept)]


def test_the_results_of_a_conflict_have_won_or_lost() -> None:
    decided = agent_pb2.TaskResult()
    decided.resolution.winner_step_id, decided.resolution.conflict = "a", "c differs from a and b"
    for step_id, support in (("a", 2.0), ("b", 2.0), ("c", 1.0)):
        decided.resolution.votes.add(step_id=step_id, role="cook", weight=1.0, support=support)
    steps = tuple(SubTask(id_, "") for id_ in ("a", "b", "c", "vote"))
    tasks = [task(id_, f"cook-{id_}", step_id=id_) for id_ in ("a", "b", "c")]
    run = run_of(*tasks, task("vote", "", step_id="vote"), steps=steps)
    assert observe([result("vote", attempt=0, payload=decided)], run) == [
        Observation("cook", f"cook-{id_}", in_conflict=True, conflict_won=id_ != "c") for id_ in ("a", "b", "c")
    ]
    decided.resolution.conflict = ""
    assert observe([result("vote", attempt=0, payload=decided)], run) == []
