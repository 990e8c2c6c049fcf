"""Plans of a model that are completed while they are executed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from archon_mesh.engine.plan import MAX_EXPANSIONS, Task, expanded
from archon_mesh.planning import PlanExecutor, PlanFailed, parse_plan
from tests.fixtures.plan_replies import reply, subtask
from tests.fixtures.waiting import until
from tests.unit.mesh.planning.workers import FunctionWorker, no_sleep, plan, planner_of


def done(message: str) -> str:
    return f"done: {message.splitlines()[0]}"


async def test_a_model_plans_the_rest_once_results_are_there() -> None:
    planner, model = planner_of(reply(subtask("first", "list"), subtask("second", "first")))
    executor = PlanExecutor(FunctionWorker(think=done), planner=planner, sleep=no_sleep)
    task = await executor.execute(plan(subtask("list"), subtask("rest", "list", expand=True), subtask("sum", "rest")))
    assert [each.id for each in task.subtasks] == ["list", "sum", "first", "second"]
    assert task.get_subtask("sum").dependencies == ("second",)  # type: ignore[union-attr]
    assert executor.replans == 0
    asked = json.loads(model.requests[0].messages[-1].content)
    assert asked["expand"] == ["rest"]
    assert asked["progress"][0]["result"] == "done: Do list"


async def test_others_are_executed_while_a_model_plans() -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def think(message: str) -> str:
        if message.startswith("Do slow"):
            started.set()
            await go_on.wait()
        return done(message)

    planner, _ = planner_of(reply(subtask("first", "list")))
    executor = PlanExecutor(FunctionWorker(think=think), planner=planner, sleep=no_sleep)
    executing = asyncio.create_task(
        executor.execute(plan(subtask("list"), subtask("slow"), subtask("rest", "list", expand=True)))
    )
    async with asyncio.timeout(60):
        await started.wait()
        await until(lambda: executor.task is not None and executor.task.get_subtask("first") is not None)
        go_on.set()
        task = await executing
    assert {each.status.value for each in task.subtasks} == {"completed"}
    assert executor.measured["slow"].attempts == 1


async def test_a_failed_subtask_with_a_branch_is_planned_around() -> None:
    def think(message: str) -> str:
        if message.startswith("Do book\n"):
            raise ValueError("full")
        return done(message)

    planner, _ = planner_of(reply(subtask("hostel")))
    executor = PlanExecutor(FunctionWorker(think=think), planner=planner, sleep=no_sleep)
    task = await executor.execute(plan(subtask("book", expand_on_failure=True), subtask("pay", "book")))
    assert {each.id: each.status.value for each in task.subtasks} == {
        "book": "failed",
        "pay": "completed",
        "hostel": "completed",
    }
    assert executor.replans == 0


async def test_a_place_that_is_not_expanded_is_sent_back() -> None:
    same = reply(subtask("list"), subtask("rest", "list", expand=True))
    planner, model = planner_of(same, reply(subtask("rest", "list")))
    executor = PlanExecutor(FunctionWorker(think=done), planner=planner, sleep=no_sleep)
    task = await executor.execute(plan(subtask("list"), subtask("rest", "list", expand=True)))
    assert [each.result for each in task.subtasks] == ["done: Do list", "done: Do rest"]
    assert "still to be expanded" in model.requests[1].messages[-1].content


@pytest.mark.parametrize("with_planner", [True, False])
async def test_what_cannot_be_expanded_fails_the_plan(with_planner: bool) -> None:
    planner = planner_of("no", "no")[0] if with_planner else None
    executor = PlanExecutor(FunctionWorker(think=done), planner=planner, sleep=no_sleep)
    with pytest.raises(PlanFailed, match="cannot be expanded"):
        await executor.execute(plan(subtask("list"), subtask("rest", "list", expand=True)))
    assert executor.task is not None
    assert executor.task.completed_ids == {"list"}


class Endless:
    """A planner that never stops to expand."""

    count = 0

    async def create_plan(self, *arguments: Any, **options: Any) -> Task:
        raise AssertionError

    async def replan(self, *arguments: Any, **options: Any) -> Task:
        raise AssertionError

    async def expand(self, task: Task, places: Any, available_tools: Any = ()) -> Task:
        self.count += 1
        again = parse_plan(reply(subtask(f"x{self.count}", expand=True)), "", "")
        return expanded(task, again, places)

    def answer(self, task: Task) -> str | None:
        return None


async def test_expansions_of_a_plan_in_process_are_bounded() -> None:
    planner = Endless()
    executor = PlanExecutor(FunctionWorker(think=done), planner=planner, sleep=no_sleep)
    with pytest.raises(PlanFailed, match=f"expanded {MAX_EXPANSIONS} times"):
        await executor.execute(plan(subtask("x", expand=True)))
    assert planner.count == MAX_EXPANSIONS
