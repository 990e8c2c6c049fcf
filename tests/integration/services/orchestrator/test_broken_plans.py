"""Broken replies of a planner in a mesh: each run ends in time, typed or by a repaired plan, and repeats no step."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from typing import Any

import pytest

from archon.agent import TaskContext
from archon.api.common.v1 import failure_pb2
from archon.client import answer_text
from archon.registry import Tool
from archon.types import Run, TaskState
from archon.wire import MAX_CHECKED_BYTES
from archon_mesh.engine.plan import MAX_REPLANS
from archon_mesh.planning import PlanFailed
from tests.fixtures.broken_plans import BROKEN, GOAL
from tests.fixtures.mesh import Mesh
from tests.fixtures.plan_replies import subtask
from tests.integration.services.orchestrator.test_plans import name
from tests.integration.services.orchestrator.troupe import Event, Troupe, durable, of

COMPLETED = TaskState.COMPLETED
FAILED = TaskState.FAILED
PLAN_FAILED = failure_pb2.ERROR_REASON_PLAN_FAILED
WITHIN = 60.0
AT_ONCE = 64


class Roles:
    """A planner that gives each run the reply of its own, whatever it is asked for but a synthesis, and a worker."""

    def __init__(self) -> None:
        self.planner, self.worker = name("planner"), name("worker")
        self.requests: dict[str, list[Any]] = defaultdict(list)
        self.begun: Counter[str] = Counter()
        """How many attempts at each task of a step there were."""

        self._replies: dict[str, asyncio.Future[str]] = defaultdict(asyncio.get_running_loop().create_future)

    async def join(self, troupe: Troupe) -> None:
        await troupe(self.planner, self.plan, max_tasks=AT_ONCE)
        await troupe(self.worker, self.work, max_tasks=AT_ONCE, tools=[Tool("calculator"), Tool("echo")])

    async def plan(self, task: TaskContext) -> str:
        request = task.plan_request
        assert request is not None
        if request.synthesise:
            return f"{len(task.context)} results"
        self.requests[task.run_id].append(request)
        async with asyncio.timeout(WITHIN):
            return await asyncio.shield(self._replies[task.run_id])

    async def work(self, task: TaskContext) -> str:
        self.begun[task.task_id] += 1
        return f"done {task.step_id}"

    async def run(self, mesh: Mesh, text: str, goal: str = GOAL) -> tuple[Run, list[Event]]:
        """Submits a run whose planner replies the text, and waits for its end."""
        handle = await mesh.client.submit(goal, strategy="plan", planner=self.planner, roles=[self.worker])
        self._replies[handle.run_id].set_result(text)
        run = await handle.result(timeout=WITHIN)
        return run, await durable(handle)


def end(run: Run) -> tuple[Any, ...]:
    return run.state, run.proto.failure.reason, run.proto.failure.kind


@pytest.mark.search
async def test_runs_with_a_broken_reply_end_in_order(mesh: Mesh, troupe: Troupe) -> None:
    roles = Roles()
    await roles.join(troupe)
    runs = await asyncio.gather(*(roles.run(mesh, broken.text, broken.goal) for broken in BROKEN.values()))
    for (label, broken), (run, events) in zip(BROKEN.items(), runs, strict=True):
        requests = roles.requests[run.run_id]
        if broken.outcome is PlanFailed:  # the reply is a plan, whose step fails for good
            assert (run.state, run.proto.failure.reason, len(requests)) == (FAILED, PLAN_FAILED, 1 + MAX_REPLANS), label
            refused = {event.retry.failure.reason for event in of(events, "retry")}
            assert refused == {failure_pb2.ERROR_REASON_RESULT_REFUSED}, label
            continue
        assert len(requests) == (2 if broken.fault else 1), label
        assert list(requests[0].faults) == [], label
        assert not broken.fault or broken.fault in requests[1].faults[0], (label, list(requests[1].faults))
        retries = [event.retry.failure for event in of(events, "retry")]
        assert [failure.reason for failure in retries] == [PLAN_FAILED] * (len(requests) - 1), label
        steps = {task.step_id: task for task in run.tasks if task.step_id}
        if isinstance(broken.mesh_outcome, type):
            assert end(run) == (FAILED, PLAN_FAILED, "planning.deadlock"), label
            assert broken.fault in run.proto.failure.field_violations[0].description, label
            assert (steps, of(events, "planned")) == ({}, []), label
        else:
            assert run.state == COMPLETED, (label, run.failure)
            assert set(steps) == set(broken.mesh_outcome), label
            assert {(task.state, task.attempt) for task in steps.values()} == {(COMPLETED, 1)}, label
            (planned,) = of(events, "planned")
            assert bool(planned.planned.plan.changes) == bool(broken.fault), label
            assert {roles.begun[task.task_id] for task in steps.values()} == {1}, label
    tasks = {task.task_id for run, _ in runs for task in run.tasks}
    assert roles.begun.keys() <= tasks, "no other step was executed"


async def test_replies_that_are_too_large_end_their_runs(mesh: Mesh, troupe: Troupe) -> None:
    roles = Roles()
    await roles.join(troupe)
    of_four_bytes = "\U00020000" * 1_000_000
    texts = [
        "x" * (MAX_CHECKED_BYTES + 1),
        "x" * (MAX_CHECKED_BYTES - 4096),
        json.dumps({"subtasks": [subtask("1", description=of_four_bytes)]}, ensure_ascii=False),
    ]
    (unsent, _), (unread, _), (wide, _) = await asyncio.gather(*(roles.run(mesh, text) for text in texts))
    assert end(unsent) == (FAILED, failure_pb2.ERROR_REASON_FRAME_TOO_LARGE, "input.invalid")
    assert end(unread) == (FAILED, PLAN_FAILED, "planning.deadlock")
    assert "1,048,576 are read" in unread.proto.failure.message
    assert (wide.state, answer_text(wide)) == (COMPLETED, "done 1")
    asked = [len(roles.requests[run.run_id]) for run in (unsent, unread, wide)]
    assert asked == [1, 2, 1], "a reply that cannot be sent holds no plan to correct"
    assert set(roles.begun.values()) == {1}
