"""While the planner expands or replans, an executor goes on: subtasks start, and a pause or a cancel takes effect."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from archon.errors import InvalidArgument, OperationCancelled, Unavailable
from archon_mesh.engine.plan import Task, carry_over, expanded
from archon_mesh.planning import PlanEvent, PlanExecutor, PlanFailed, parse_plan
from tests.fixtures.plan_replies import reply, subtask
from tests.fixtures.waiting import until
from tests.unit.mesh.planning.workers import FunctionWorker, no_sleep, plan


class SlowPlanner:
    """Replies once `go_on` is set."""

    def __init__(self, *subtasks: Mapping[str, Any], error: Exception | None = None) -> None:
        self.asked, self.go_on, self.cancelled = 0, asyncio.Event(), False
        self._subtasks, self._error = subtasks, error

    async def _reply(self) -> Task:
        self.asked += 1
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        if self._error is not None:
            raise self._error
        return parse_plan(reply(*self._subtasks), "", "")

    async def create_plan(self, *arguments: Any, **options: Any) -> Task:
        raise AssertionError

    async def replan(self, task: Task, *arguments: Any, **options: Any) -> Task:
        return carry_over(task, await self._reply())

    async def expand(self, task: Task, places: Sequence[str], available_tools: Any = ()) -> Task:
        return expanded(task, await self._reply(), places)

    def answer(self, task: Task) -> str | None:
        return None


class Execution:
    """A plan that is executed; subtasks whose names are in `held` wait until they are let through, or fail."""

    def __init__(self, planner: SlowPlanner, task: Task, held: Sequence[str] = (), failing: Sequence[str] = ()) -> None:
        self.planner, self.events, self.started = planner, list[PlanEvent](), list[str]()
        self.held = {name: asyncio.Event() for name in held}
        self._failing = failing
        self.executor = PlanExecutor(
            FunctionWorker(think=self._think), planner=planner, sleep=no_sleep, on_event=self.events.append
        )
        self.result = asyncio.create_task(self.executor.execute(task))

    async def _think(self, message: str) -> str:
        name = message.splitlines()[0].removeprefix("Do ")
        self.started.append(name)
        if name in self.held:
            await self.held[name].wait()
        if name in self._failing:
            raise InvalidArgument("no")
        return f"done {name}"

    @property
    def kinds(self) -> list[str]:
        return [event.kind.value for event in self.events]

    def completed(self) -> frozenset[str]:
        return self.executor.task.completed_ids if self.executor.task is not None else frozenset()


def expanding(planner: SlowPlanner, *held: str) -> Execution:
    """A plan whose subtask `rest` is to be expanded after `list`, beside a chain of three."""
    task = plan(
        subtask("list"), subtask("rest", "list", expand=True), subtask("sum", "rest"),
        subtask("x"), subtask("y", "x"), subtask("z", "y"),
    )  # fmt: skip
    return Execution(planner, task, held)


async def test_subtasks_start_and_end_while_the_planner_expands() -> None:
    planner = SlowPlanner(subtask("new", "list"))
    run = expanding(planner, "x")
    async with asyncio.timeout(20):
        await until(lambda: planner.asked == 1)
        run.held["x"].set()
        await until(lambda: run.completed() == {"list", "x", "y", "z"})
        planner.go_on.set()
        task = await run.result
    assert {each.id: each.result for each in task.subtasks} == {
        name: f"done {name}" for name in ("list", "sum", "x", "y", "z", "new")
    }
    assert run.started.count("y") == 1
    assert task.get_subtask("sum").dependencies == ("new",)  # type: ignore[union-attr]


async def test_what_began_meanwhile_is_kept_whatever_the_reply_says_of_it() -> None:
    planner = SlowPlanner(subtask("new", "list"), subtask("y", "new"), subtask("z", "y", "new"))
    run = expanding(planner, "x", "y")
    async with asyncio.timeout(20):
        await until(lambda: planner.asked == 1)
        run.held["x"].set()
        await until(lambda: "y" in run.started)
        planner.go_on.set()
        await until(lambda: "new" in run.completed())
        run.held["y"].set()
        task = await run.result
    assert run.started.count("y") == 1
    by_id = {each.id: each for each in task.subtasks}
    assert by_id["y"].dependencies == ("x",)
    assert by_id["z"].dependencies == ("y", "new")
    assert len(task.completed_ids) == 6


async def test_a_failure_beside_a_planner_that_expands_is_noted_and_replanned_afterwards() -> None:
    planner = SlowPlanner(subtask("new", "list"))
    task = plan(subtask("list"), subtask("rest", "list", expand=True), subtask("bad", critical=True))
    run = Execution(planner, task, held=["bad"], failing=["bad"])
    async with asyncio.timeout(20):
        await until(lambda: planner.asked == 1)
        run.held["bad"].set()
        await until(lambda: "subtask_failed" in run.kinds)
        assert planner.asked == 1
        planner.go_on.set()
        done = await run.result
    assert planner.asked == 2
    assert done.completed_ids == {"list", "new"}
    assert run.kinds.index("expanded") < run.kinds.index("replanning")


@pytest.mark.parametrize("kind", ["expand", "replan"])
async def test_a_cancel_does_not_wait_for_the_planner(kind: str) -> None:
    planner = SlowPlanner()
    task = plan(subtask("a"), subtask("b", "a", expand=True) if kind == "expand" else subtask("bad", critical=True))
    run = Execution(planner, task, failing=["bad"])
    async with asyncio.timeout(20):
        await until(lambda: planner.asked == 1)
        run.executor.cancel()
        with pytest.raises(OperationCancelled):
            await run.result
    assert planner.cancelled


@pytest.mark.parametrize("kind", ["expand", "replan"])
async def test_a_pause_takes_effect_while_the_planner_works_and_keeps_its_reply(kind: str) -> None:
    planner = SlowPlanner(subtask("new"))
    task = plan(subtask("a"), subtask("b", "a", expand=True) if kind == "expand" else subtask("bad", critical=True))
    run = Execution(planner, task, failing=["bad"])
    async with asyncio.timeout(20):
        await until(lambda: planner.asked == 1)
        run.executor.pause()
        await until(lambda: "paused" in run.kinds)
        planner.go_on.set()
        await until(lambda: run.kinds[-1] in ("expanded", "replanned"))
        assert "new" not in run.started
        run.executor.resume()
        done = await run.result
    assert done.completed_ids >= {"a", "new"}
    assert planner.asked == 1


async def test_a_planner_that_fails_beside_what_is_executing_fails_the_plan_and_stops_it() -> None:
    planner = SlowPlanner(error=Unavailable("no model"))
    run = expanding(planner, "x")
    async with asyncio.timeout(20):
        await until(lambda: planner.asked == 1)
        planner.go_on.set()
        with pytest.raises(PlanFailed, match="rest cannot be expanded: no model"):
            await run.result
    assert run.executor.task is not None
    assert run.executor.task.get_subtask("x").status.value == "pending"  # type: ignore[union-attr]


async def test_the_position_of_a_subtask_does_not_depend_on_when_the_planner_replies() -> None:
    early, late = await numbers_of(is_early=True), await numbers_of(is_early=False)
    assert early == late == {"list": 1, "x": 3, "y": 4, "new": 5}


async def numbers_of(*, is_early: bool) -> dict[str, int]:
    """Returns the positions if the planner replies while `x` is executing, or after it."""
    planner, worker = SlowPlanner(subtask("new", "list")), Numbering()
    executor = PlanExecutor(worker, planner=planner, sleep=no_sleep)
    task = plan(subtask("list"), subtask("rest", "list", expand=True), subtask("x"), subtask("y", "x"))
    executing = asyncio.create_task(executor.execute(task))
    async with asyncio.timeout(20):
        await until(lambda: planner.asked == 1)
        if not is_early:
            worker.go_on.set()
            await until(lambda: "y" in worker.numbers)
        planner.go_on.set()
        await until(lambda: "new" in worker.numbers)
        worker.go_on.set()
        await executing
    return worker.numbers


class Numbering(FunctionWorker):
    """Notes the position of each subtask; `x` waits until `go_on` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: dict[str, int] = {}
        self.go_on = asyncio.Event()

    async def think(self, message: str, tools: Any, number: int, spending: Any, *, output: Any = None) -> str:
        name = message.splitlines()[0].removeprefix("Do ")
        self.numbers[name] = number
        if name == "x":
            await self.go_on.wait()
        return "done"
