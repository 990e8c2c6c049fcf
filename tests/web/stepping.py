"""A role whose tasks go on when the test says so, and plans for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from archon import TaskContext
from tests.web.agents import serving
from tests.web.page_mesh import WebMesh


class Steps:
    """What the role has begun: tasks wait for `go_on`, but for the steps of `free`."""

    def __init__(self, *free: str) -> None:
        self.begun: list[str] = []
        self.free = set(free)
        self.go_on = asyncio.Event()
        self._changed = asyncio.Event()

    async def work(self, task: TaskContext) -> str:
        """Answers with the name of the step and its description."""
        self.begun.append(task.step_id)
        self._changed.set()
        if task.step_id not in self.free:
            await self.go_on.wait()
        return f"{task.step_id or 'all'} is done"

    async def until_begun(self, step: str) -> None:
        """Waits until a step has begun."""
        async with asyncio.timeout(30):
            while step not in self.begun:
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def stepping(web: WebMesh, role: str, *free: str) -> AsyncIterator[Steps]:
    """A role of this name during the block; its tasks end with it."""
    steps = Steps(*free)
    async with serving(web, role, steps.work):
        try:
            yield steps
        finally:
            steps.go_on.set()


def step(id: str, role: str, *dependencies: str, **fields: Any) -> dict[str, Any]:
    """Returns a step as planners write it."""
    return {"id": id, "role": role, "description": f"Do {id}.", "dependencies": dependencies, **fields}


def plan(*steps: dict[str, Any], goal: str = "a trip") -> str:
    """Returns a plan as planners write it."""
    return json.dumps({"goal": goal, "subtasks": steps})
