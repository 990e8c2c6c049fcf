"""Random courses of plans in a process: subtasks and planners fail, wait and reply at random times, and the plan is paused,
resumed and edited meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from archon.errors import FailedPrecondition, InvalidArgument, Unavailable
from archon_mesh.engine.plan import ReplanPolicy, SubTask, SubTaskStatus, Task, carry_over, expanded, has_ended
from archon_mesh.planning import Alignment, PlanEvent, PlanExecutor, PlanFailed
from tests.fixtures.variants import one_in
from tests.unit.mesh.planning.workers import FunctionWorker, no_sleep

SEEDS = 400


class Course:
    """One seed: its plans, planner, worker and disturbances, and what must hold whenever a subtask begins."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.plans = 0
        self.executing: set[str] = set()
        self.completed: set[str] = set()
        self.events: list[PlanEvent] = []
        self.executor = PlanExecutor(
            FunctionWorker(think=self._think),
            planner=self if self.random.random() < 0.8 else None,
            policy=ReplanPolicy(failures_of_subtask=self.random.randint(1, 3), max_replans=self.random.randint(0, 3)),
            alignment=self._aligned if self.random.random() < 0.5 else None,
            max_parallel=self.random.randint(1, 4),
            max_attempts=self.random.randint(1, 3),
            on_event=self.events.append,
            sleep=no_sleep,
        )

    def plan(self) -> Task:
        """Returns a plan whose subtasks are like those of no other one."""
        self.plans += 1
        steps: list[SubTask] = []
        for number in range(self.random.randint(1, 7)):
            earlier = [step.id for step in steps]
            dependencies = self.random.sample(earlier, min(len(earlier), self.random.randint(0, 2)))
            chance = self.random.random
            steps.append(
                SubTask(
                    f"s{number}",
                    f"Do {number} of {self.plans}",
                    dependencies=tuple(dependencies),
                    critical=chance() < 0.1,
                    partial_input=chance() < 0.2,
                    expand=bool(steps) and chance() < 0.1 and self.plans < 20,
                    expand_on_failure=chance() < 0.1,
                    confidence=0.1 if chance() < 0.05 else 1.0,
                )
            )
        self.random.shuffle(steps)
        return Task("task", "Do it", "Do it", tuple(steps))

    async def _pass(self) -> None:
        for _ in range(self.random.randint(0, 6)):
            await asyncio.sleep(0)

    async def _think(self, message: str) -> str:
        work = message.splitlines()[0]
        task = self.executor.task
        assert task is not None
        (subtask,) = [each for each in task.subtasks if each.description == work]
        assert subtask.status is SubTaskStatus.EXECUTING
        for id_ in subtask.dependencies:
            source = task.get_subtask(id_)
            assert source is not None
            assert source.status is SubTaskStatus.COMPLETED or (subtask.partial_input and source.has_ended), work
        assert work not in self.executing, "two attempts at a time"
        assert work not in self.completed, "executed again after it had completed"
        self.executing.add(work)
        try:
            await self._pass()
            if self.random.random() < 0.25:
                raise self.random.choice([InvalidArgument("no"), Unavailable("busy"), ValueError("a bug")])
        finally:
            self.executing.remove(work)
        self.completed.add(work)
        return f"done {work}"

    async def _reply(self) -> Task:
        await self._pass()
        if self.random.random() < 0.1:
            raise Unavailable("no model")
        return self.plan()

    async def create_plan(self, *arguments: Any, **options: Any) -> Task:
        raise AssertionError

    async def replan(self, task: Task, *arguments: Any, **options: Any) -> Task:
        return carry_over(task, await self._reply())

    async def expand(self, task: Task, places: Sequence[str], available_tools: Any = ()) -> Task:
        return expanded(task, await self._reply(), places)

    def answer(self, task: Task) -> str | None:
        return None

    async def _aligned(self, task: Task) -> Alignment:
        await self._pass()
        return Alignment("it leads elsewhere" if self.random.random() < 0.2 else "")

    async def disturb(self) -> None:
        """Pauses, resumes and edits the plan at random times; at last it is resumed."""
        for _ in range(self.random.randint(0, 6)):
            await self._pass()
            match self.random.choice(("pause", "resume", "edit")):
                case "pause":
                    self.executor.pause()
                case "resume":
                    self.executor.resume()
                case "edit" if self.executor.task is not None:
                    begun = [step for step in self.executor.task.subtasks if step.status is not SubTaskStatus.PENDING]
                    new = [step for step in self.plan().subtasks if step.id not in {each.id for each in begun}]
                    known = {step.id for step in (*begun, *new)}
                    if known and all(known.issuperset(step.dependencies) for step in (*begun, *new)):
                        with suppress(FailedPrecondition):
                            self.executor.edit(Task("task", "Do it", "Do it", (*begun, *new)))
        self.executor.resume()


@pytest.mark.parametrize("seeds", one_in(8, [range(first, first + 50) for first in range(0, SEEDS, 50)]))
async def test_no_course_breaks_the_order_repeats_a_result_or_hangs(seeds: range) -> None:
    for seed in seeds:
        course = Course(seed)
        given = course.plan()
        disturbance = asyncio.create_task(course.disturb())
        try:
            async with asyncio.timeout(60):
                task = await course.executor.execute(given)
        except PlanFailed as error:
            task = error.plans[-1]
            assert all(step.status is not SubTaskStatus.EXECUTING for step in task.subtasks), seed
        else:
            assert has_ended(task), seed
        finally:
            await disturbance
        assert not course.executing, seed
        for step in task.subtasks:
            if step.status is SubTaskStatus.COMPLETED:
                assert step.result == f"done {step.description}", seed
        started = [
            event.subtask.description for event in course.events if event.kind == "subtask_started" and event.subtask
        ]
        assert len(started) == len(set(started)), seed
