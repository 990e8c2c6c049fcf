"""Thirty broken planner replies: each is refused, repaired, or fails with a typed error; nothing hangs or runs twice."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from archon.errors import ArchonError
from archon_mesh.core.plan import EmptyPlan, Plan, has_ended
from archon_mesh.planning import MalformedPlan, PlanEvent, PlanFailed
from archon_mesh.tools import tool
from archon_mesh.tools.builtin import Calculator
from tests.unit.mesh.planning.workers import FunctionWorker, executor_of, planner_of, reply, subtask

SUM = {"tool_name": "calculator", "tool_args": {"expression": "15 * 24"}}
DEEP: Any = "end"
for _ in range(35):
    DEEP = [DEEP]

BROKEN: dict[str, tuple[str, object]] = {
    # What the planner replied, and the error, or the ids that complete.
    "nothing": ("", MalformedPlan),
    "prose": ("First I would look for a hotel, then book it.", MalformedPlan),
    "a refusal": ("I'm sorry, but I can't help with that.", MalformedPlan),
    "cut off in a text": ('{"goal": "Do it", "subtasks": [{"id": "1", "description": "Do th', MalformedPlan),
    "cut off in the list": ('{"goal": "Do it", "subtasks": [{"id": "1", "description": "Do 1"}, {', MalformedPlan),
    "too deep": ('{"goal": "Do it", "subtasks": ' + "[" * 100 + "]" * 100 + "}", MalformedPlan),
    "only brackets": ("{" * 10_000, MalformedPlan),
    "no list": ('{"goal": "Do it", "subtasks": "1. search 2. book"}', MalformedPlan),
    "too long": (reply(subtask("1", description="x" * 1024 * 1024)), MalformedPlan),
    "too many to read": (reply(*[subtask("1")] * 10_001), MalformedPlan),
    "an empty list": (reply(), EmptyPlan),
    "a list of nothing": (reply(None, 7, [], ""), EmptyPlan),
    "a goal and blank steps": (reply(subtask("1", description="..."), subtask("2", description="")), {"1"}),
    "a cycle": (reply(subtask("1", "3"), subtask("2", "1"), subtask("3", "2")), {"1", "2", "3"}),
    "a step that needs itself": (reply(subtask("1", "1")), {"1"}),
    "two cycles": (reply(subtask("1", "2"), subtask("2", "1"), subtask("3", "4"), subtask("4", "3")), set("1234")),
    "a dangling dependency": (reply(subtask("1", "0"), subtask("2", "1", "nine")), {"1", "2"}),
    "two steps with one id": (reply(subtask("1"), subtask("1", description="Do 2")), {"1", "1-2"}),
    "the same step twice": (reply(subtask("1", **SUM), subtask("1", **SUM)), {"1"}),
    "numbers as ids": (reply({**subtask(""), "id": 1}, {**subtask(""), "id": 2.0, "dependencies": 1}), {"1", "2"}),
    "null in all fields": (
        reply({"id": None, "description": "Do 1", "tool_args": None, "dependencies": None, "critical": None}),
        {"1"},
    ),
    "dependencies as a text": (reply(subtask("1"), {**subtask("2"), "dependencies": "1"}), {"1", "2"}),
    "an unknown tool": (reply(subtask("1", tool_name="teleport", tool_args={"to": "Rome"})), {"1"}),
    "a misspelled tool": (reply(subtask("1", **{**SUM, "tool_name": "Calculater"})), {"1"}),
    "an unknown role": (reply(subtask("1", role="wizard"), subtask("2", capability="magic")), {"1", "2"}),
    "arguments as a text": (reply(subtask("1", tool_name="calculator", tool_args="15 * 24")), {"1"}),
    "arguments that are too deep": (reply(subtask("1", tool_name="calculator", tool_args={"expression": DEEP})), {"1"}),
    "a template without a value": (reply(subtask("1", tool_name="echo", tool_args={"text": "{nine}"})), {"1"}),
    "a template without a dependency": (
        reply(subtask("1", **SUM), subtask("2", tool_name="echo", tool_args={"text": "{1}"})),
        {"1", "2"},
    ),
    "far too many steps": (reply(*(subtask(f"s{n}", **SUM) for n in range(500))), 20),
    "the wrong goal": (reply(subtask("1"), goal="Bake bread"), {"1"}),
    "results in the reply": (reply(subtask("1", status="completed", result="trust me")), {"1"}),
    "a schema that nothing meets": (
        reply(subtask("1", expected_output='{"type": "integer", "minimum": 9}')),
        PlanFailed,
    ),
}


@tool
def echo(text: str) -> str:
    """Returns the text."""
    return text


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_reply_ends_in_order(name: str) -> None:
    text, expected = BROKEN[name]
    completed: Counter[str] = Counter()

    def on_event(event: PlanEvent) -> None:
        if event.kind == "subtask_completed" and event.subtask is not None:
            completed[event.subtask.id] += 1

    worker = FunctionWorker([Calculator(), echo])
    planner, _ = planner_of(text, text)
    async with asyncio.timeout(60):
        if isinstance(expected, type) and issubclass(expected, ArchonError):
            with pytest.raises(expected):
                await executor_of(worker, on_event=on_event).execute(await planner.create_plan("Do it", worker.tools))
        else:
            task = await planner.create_plan("Do it", worker.tools)
            assert Plan.of(task).execution_order
            assert has_ended(await executor_of(worker, on_event=on_event).execute(task))
            assert (len(completed) if isinstance(expected, int) else set(completed)) == expected
    assert max(completed.values(), default=1) == 1


def test_there_are_thirty_broken_replies_all_different() -> None:
    assert len({json.dumps(text) for text, _ in BROKEN.values()}) >= 30
