"""Runs whose planner is asked whether the plan still leads to the goal."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import AsyncExitStack
from typing import Any

import pytest

from archon.agent import TaskContext
from archon.api.orchestrator.v1 import run_pb2
from archon.client import RunHandle, answer_text
from archon.errors import InvalidArgument
from archon.types import Run, TaskState
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import until
from tests.integration.services.orchestrator.test_plans import name, plan, step
from tests.integration.services.orchestrator.troupe import Troupe, durable, of

COMPLETED = TaskState.COMPLETED
GOAL = "a train to Rome"
WRONG = plan(step("flights"), step("airports", "flights"), step("booking", "airports"))


def misaligned(*steps: dict[str, Any], reason: str = "it books a flight") -> str:
    return json.dumps({"goal": GOAL, "subtasks": steps, "reason": reason})


class Cast:
    """A planner with a plan and verdicts, and a worker whose second step waits until it is let through."""

    def __init__(self, *verdicts: Any, first: str = WRONG) -> None:
        self.first = first
        self.verdicts = list(verdicts)
        self.checks: list[Any] = []
        self.worked: list[str] = []
        self.planner, self.worker = name("planner"), name("worker")
        self.let = asyncio.Event()
        self.judged = asyncio.Event()
        self.judged.set()

    async def join(self, troupe: Any) -> None:
        await troupe(self.planner, self.plan)
        await troupe(self.worker, self.work)

    async def plan(self, task: TaskContext) -> str:
        request = task.plan_request
        assert request is not None
        if request.synthesise:
            return " + ".join(item.text for item in task.context)
        if not request.align:
            return self.first
        self.checks.append(request)
        await self.judged.wait()
        verdict = self.verdicts.pop(0) if self.verdicts else '{"aligned": true}'
        if isinstance(verdict, Exception):
            raise verdict
        return str(verdict)

    async def work(self, task: TaskContext) -> str:
        self.worked.append(task.step_id)
        if task.step_id == "airports":
            await self.let.wait()
        return f"{task.step_id}({','.join(item.text for item in task.context)})"

    async def submit(self, mesh: Mesh, **options: Any) -> RunHandle:
        options = {"check_alignment": True, **options}
        return await mesh.client.submit(GOAL, strategy="plan", planner=self.planner, roles=[self.worker], **options)


async def ended(handle: RunHandle) -> tuple[Run, list[run_pb2.RunEvent]]:
    events = await durable(handle)
    return await handle.result(), events


async def test_a_plan_in_the_wrong_direction_is_corrected(mesh: Mesh, troupe: Troupe) -> None:
    """No step fails: only the planner can tell that a flight is not what the goal asks for."""
    cast = Cast(misaligned(step("trains", "flights"), step("ticket", "trains")))
    await cast.join(troupe)
    run, events = await ended(await cast.submit(mesh))
    assert answer_text(run) == "ticket(trains(flights()))"
    assert "booking" not in cast.worked
    (check, *_), (_, second) = cast.checks, of(events, "planned")
    assert (check.proto.previous.steps[0].step_id, check.proto.previous.steps[0].state) == ("flights", COMPLETED.proto)
    assert check.proto.previous.steps[0].result[0].text == "flights()"
    assert second.planned.reason == "the plan no longer serves the query: it books a flight"
    assert second.planned.plan.revision == 2
    created = next(each for each in of(events, "task_state") if each.task_state.align)
    assert created.task_state.role == cast.planner


@pytest.mark.parametrize(
    "verdict",
    [
        '{"aligned": true}',
        "I cannot tell.",
        '{"aligned": false}',
        '{"question": "Which train?"}',
        InvalidArgument("the planner has no opinion"),
        RuntimeError("the planner broke"),
        plan(step("airports", "flights"), step("booking", "airports")),
        WRONG,
    ],
    ids=["aligned", "text", "no plan", "question", "failure", "crash", "what is left", "the whole plan"],
)
async def test_anything_but_other_work_leaves_the_plan(
    mesh: Mesh, troupe: Troupe, verdict: Any, caplog: pytest.LogCaptureFixture
) -> None:
    cast = Cast(verdict)
    await cast.join(troupe)
    handle = await cast.submit(mesh)
    await until(lambda: len(cast.checks) == 1 and not cast.verdicts)
    cast.let.set()
    with caplog.at_level(logging.WARNING):
        run, events = await ended(handle)
    assert (run.state, answer_text(run)) == (COMPLETED, "booking(airports(flights()))")
    assert [event.planned.plan.revision for event in of(events, "planned")] == [1]
    assert cast.worked == ["flights", "airports", "booking"]


async def test_a_reply_without_a_verdict_is_logged(
    mesh: Mesh, troupe: Troupe, caplog: pytest.LogCaptureFixture
) -> None:
    cast = Cast("I cannot tell.")
    await cast.join(troupe)
    with caplog.at_level(logging.WARNING):
        handle = await cast.submit(mesh)
        await until(lambda: "the planner does not say whether the plan still leads to the goal" in caplog.text)
        cast.let.set()
        await ended(handle)


async def test_steps_and_the_answer_wait_for_no_check(mesh: Mesh, troupe: Troupe) -> None:
    cast = Cast(misaligned(step("ticket")))
    cast.judged.clear()
    cast.let.set()
    await cast.join(troupe)
    run, events = await ended(await cast.submit(mesh))
    assert (run.state, answer_text(run)) == (COMPLETED, "booking(airports(flights()))")
    assert len(of(events, "planned")) == 1


async def test_without_the_option_the_planner_is_asked_once(mesh: Mesh, troupe: Troupe) -> None:
    cast = Cast(misaligned(step("ticket")))
    cast.let.set()
    await cast.join(troupe)
    run, _ = await ended(await cast.submit(mesh, check_alignment=False))
    assert (answer_text(run), cast.checks) == ("booking(airports(flights()))", [])


async def test_only_a_run_with_a_plan_is_checked(mesh: Mesh) -> None:
    with pytest.raises(InvalidArgument, match="check_alignment"):
        await mesh.client.submit(GOAL, strategy="agent", roles=["x"], check_alignment=True)


async def test_a_check_survives_the_orchestrator(own_mesh: Mesh) -> None:
    """The check is journaled: the process that takes the run over asks again, or takes the reply."""
    async with AsyncExitStack() as stack:
        troupe = Troupe(own_mesh, stack)
        cast = Cast(*[misaligned(step("trains", "flights"), step("ticket", "trains"))] * 3)
        cast.judged.clear()
        await cast.join(troupe)
        handle = await cast.submit(own_mesh)
        await until(lambda: bool(cast.checks))
        await own_mesh.orchestrator.kill()
        await own_mesh.orchestrator.start()
        cast.judged.set()
        run, events = await ended(handle)
        assert answer_text(run) == "ticket(trains(flights()))"
        assert [event.planned.plan.revision for event in of(events, "planned")] == [1, 2]
        assert sum(event.task_state.align for event in of(events, "task_state")) >= 1
