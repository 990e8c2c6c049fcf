"""The waterfall of a run whose events have been deleted."""

from __future__ import annotations

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.wire import set_seconds
from archon_services.reports.waterfall.spans import Waterfall
from archon_services.reports.waterfall.summary import DELETED, view_of
from archon_services.reports.waterfall.tree import waterfall
from tests.unit.services.reports.waterfall.journals import COMPLETED, START, path, shape


def compacted_run(strategy: run_pb2.Strategy.ValueType) -> run_pb2.Run:
    run = run_pb2.Run(run_id="run-1", strategy=strategy, state=COMPLETED)
    set_seconds(run.create_time, START)
    set_seconds(run.end_time, START + 9)
    run.edges.add(upstream="cook", downstream="waiter")
    return run


def add_task(run: run_pb2.Run, role: str, start: float, end: float, attempt: int = 1, parent: str = "") -> run_pb2.Task:
    task = run.tasks.add(task_id=role, role=role, state=COMPLETED, attempt=attempt, parent_task_id=parent)
    task.usage.input_tokens = 5
    set_seconds(task.start_time, START + start)
    set_seconds(task.end_time, START + end)
    return task


def drawn_from(run: run_pb2.Run) -> Waterfall:
    return waterfall(view_of(run), [], START + 99, [DELETED])


def test_pipeline_has_its_last_attempts_and_says_what_is_missing() -> None:
    run = compacted_run(run_pb2.STRATEGY_PIPELINE)
    add_task(run, "cook", 1, 4, attempt=3)
    add_task(run, "waiter", 5, 9)
    drawn = drawn_from(run)
    assert shape(drawn.root.children) == [
        ("queue", "cook", 0.0, 1.0),
        ("attempt", "cook", 1.0, 4.0),
        ("waiting", "waiter", 0.0, 4.0),
        ("queue", "waiter", 4.0, 5.0),
        ("attempt", "waiter", 5.0, 9.0),
    ]
    assert (drawn.notes, drawn.root.spent.input_tokens, drawn.root.children[1].attempt) == ([DELETED], 10, 3)
    assert path(drawn)[-1] == ("waiter", "agent", 5, 9)


def test_delegated_tasks_are_beside_their_caller() -> None:
    run = compacted_run(run_pb2.STRATEGY_AGENT)
    add_task(run, "lead", 0, 9)
    add_task(run, "cook", 2, 5, parent="lead")
    drawn = drawn_from(run)
    assert shape(drawn.root.children) == [("attempt", "lead", 0.0, 9.0), ("attempt", "cook", 2.0, 5.0)]
    assert path(drawn) == [("lead", "agent", 0, 9)]


def test_reused_and_cancelled_tasks_are_shown() -> None:
    run = compacted_run(run_pb2.STRATEGY_PIPELINE)
    run.tasks.add(task_id="cook", role="cook", state=COMPLETED)
    task = run.tasks.add(task_id="waiter", role="waiter", state=common_pb2.TASK_STATE_WORKING, attempt=1)
    set_seconds(task.start_time, START + 2)
    cook, _, waiter = drawn_from(run).root.children
    assert (cook.status, waiter.status, waiter.end - START) == ("reused", "canceled", 9)
