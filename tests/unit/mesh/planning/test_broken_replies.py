"""Thirty broken planner replies: each is refused, repaired, or fails with a typed error; nothing hangs or runs twice."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from archon_mesh.engine.plan import Plan, has_ended
from archon_mesh.planning import PlanEvent
from archon_mesh.tools import tool
from archon_mesh.tools.builtin import Calculator
from tests.fixtures.broken_plans import BROKEN
from tests.unit.mesh.planning.workers import FunctionWorker, executor_of, planner_of


@tool
def echo(text: str) -> str:
    """Returns the text."""
    return text


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_reply_ends_in_order(name: str) -> None:
    text, expected, goal = BROKEN[name].text, BROKEN[name].outcome, BROKEN[name].goal
    completed: Counter[str] = Counter()

    def on_event(event: PlanEvent) -> None:
        if event.kind == "subtask_completed" and event.subtask is not None:
            completed[event.subtask.id] += 1

    worker = FunctionWorker([Calculator(), echo])
    planner, _ = planner_of(text, text)
    async with asyncio.timeout(60):
        if isinstance(expected, type):
            with pytest.raises(expected):
                await executor_of(worker, on_event=on_event).execute(await planner.create_plan(goal, worker.tools))
        else:
            task = await planner.create_plan(goal, worker.tools)
            assert Plan.of(task).execution_order
            assert has_ended(await executor_of(worker, on_event=on_event).execute(task))
            assert set(completed) == set(expected)
    assert max(completed.values(), default=1) == 1


def test_there_are_thirty_broken_replies_all_different() -> None:
    assert len({broken.text for broken in BROKEN.values()}) >= 30
