"""Steps with quorums and decisions in a mesh: committees, arbiters, redundant and hedged steps, and a takeover."""

from __future__ import annotations

import asyncio
import json
import uuid
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from typing import Any

import pytest

from archon.agent import TaskContext
from archon.api.orchestrator.v1 import run_pb2
from archon.client import RunHandle, answer_text
from archon.errors import InvalidArgument
from archon.types import TaskState
from archon_mesh.engine.plan import SubTask
from archon_mesh.planning import committee, hedged, redundant
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import until
from tests.integration.services.orchestrator.troupe import Troupe, durable, of


class Roles:
    """A planner that replies these steps, and a worker whose answers are by step; an answer may be an error or wait."""

    def __init__(self, *steps: SubTask, **answers: str | Exception | asyncio.Event) -> None:
        number = uuid.uuid4().hex[:6]
        self.planner, self.worker = f"planner-{number}", f"worker-{number}"
        self.steps = [replace(step, role=step.role and self.worker) for step in steps]
        self.answers = {name.replace("_", "-"): answer for name, answer in answers.items()}
        self.worked: list[str] = []
        self.cancelled: list[str] = []

    async def join(self, troupe: Troupe) -> None:
        await troupe(self.planner, self.plan)
        await troupe(self.worker, self.work)

    async def plan(self, task: TaskContext) -> str:
        return json.dumps({"goal": "an answer", "subtasks": [asdict(step) for step in self.steps]})

    async def work(self, task: TaskContext) -> str:
        self.worked.append(task.step_id)
        answer = self.answers.get(task.step_id, task.step_id)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, str):
            return f"{answer}: {task.text}" if "no rule" in task.text else answer
        try:
            await answer.wait()
        except asyncio.CancelledError:
            self.cancelled.append(task.step_id)
            raise
        return task.step_id


async def run(mesh: Mesh, troupe: Troupe, roles: Roles) -> tuple[str, list[run_pb2.RunEvent]]:
    await roles.join(troupe)
    handle = await mesh.client.submit(
        "an answer", strategy="plan", planner=roles.planner, roles=[roles.worker], wait=20
    )
    assert handle.run.state == TaskState.COMPLETED, handle.run.failure
    return answer_text(handle.run), await durable(handle)


async def test_the_answer_of_most_members_counts_and_the_journal_has_the_votes(mesh: Mesh, troupe: Troupe) -> None:
    steps = committee("How many?", roles=["worker"])
    answer, events = await run(mesh, troupe, Roles(*steps, committee_1="360", committee_2="12", committee_3="361"))
    assert answer == "360"
    (resolution,) = [event.result.resolution for event in of(events, "result") if event.result.HasField("resolution")]
    assert (resolution.rule, resolution.winner_step_id) == ("vote", "committee-1")
    assert [(vote.step_id, vote.weight, vote.support) for vote in resolution.votes] == [
        ("committee-1", 1, 2),
        ("committee-2", 1, 1),
        ("committee-3", 1, 2),
    ]


async def test_an_arbiter_decides_a_tie(mesh: Mesh, troupe: Troupe) -> None:
    steps = committee("How many?", members=2, roles=["worker"], arbiter="worker")
    roles = Roles(*steps, committee_1="1", committee_2="2", committee="two")
    answer, events = await run(mesh, troupe, roles)
    assert answer.startswith("two: ")
    assert "no rule has decided" in answer
    (retried,) = of(events, "retry")
    assert retried.retry.failure.message == "undecided: a tie: 2 candidates have 1 of 2 votes each"
    assert len(retried.retry.resolution.votes) == 2
    assert roles.worked.count("committee") == 1


async def test_the_other_copies_of_a_step_are_cancelled(mesh: Mesh, troupe: Troupe) -> None:
    steps = redundant(SubTask("x", "Do x", role="worker"), copies=3)
    roles = Roles(*steps, x_1=asyncio.Event(), x_3=asyncio.Event())
    answer, _ = await run(mesh, troupe, roles)
    assert answer == "x-2"
    assert sorted(roles.cancelled) == ["x-1", "x-3"]


async def test_a_hedge_starts_at_once_if_the_first_attempt_fails(mesh: Mesh, troupe: Troupe) -> None:
    steps = hedged(SubTask("x", "Do x", role="worker"), 3_600)
    answer, _ = await run(mesh, troupe, Roles(*steps, x_1=InvalidArgument("no")))
    assert answer == "x-2"


async def test_a_hedge_starts_after_its_time(mesh: Mesh, troupe: Troupe) -> None:
    steps = hedged(SubTask("x", "Do x", role="worker"), 0.2)
    roles = Roles(*steps, x_1=asyncio.Event())
    answer, _ = await run(mesh, troupe, roles)
    assert answer == "x-2"
    assert roles.cancelled == ["x-1"]


async def test_after_a_crash_no_member_is_asked_again(own_mesh: Mesh) -> None:
    gate = asyncio.Event()
    roles = Roles(*committee("How many?", roles=["worker"]), committee_1="7", committee_2="7", committee_3=gate)
    async with AsyncExitStack() as stack:
        await roles.join(Troupe(own_mesh, stack))
        submitted = own_mesh.client.submit("an answer", strategy="plan", planner=roles.planner, roles=[roles.worker])
        handle = await submitted
        await until(lambda: len(roles.worked) == 3)
        await own_mesh.orchestrator.kill()
        await own_mesh.orchestrator.start()
        gate.set()
        assert answer_text(await handle.result(timeout=30)) == "7"
    assert sorted(roles.worked) == ["committee-1", "committee-2", "committee-3"]


async def test_a_fork_asks_no_member_again_and_has_the_same_decision(mesh: Mesh, troupe: Troupe) -> None:
    roles = Roles(*committee("How many?", roles=["worker"]), committee_1="7", committee_2="7", committee_3="8")
    await roles.join(troupe)
    target = [roles.worker]
    handle = await mesh.client.submit("an answer", strategy="plan", planner=roles.planner, roles=target, wait=20)
    forked = await mesh.client.fork(handle.run_id)
    assert answer_text(await forked.result(timeout=20)) == "7"
    assert sorted(roles.worked) == ["committee-1", "committee-2", "committee-3"]


async def test_a_paused_run_takes_no_decision_until_it_goes_on(mesh: Mesh, troupe: Troupe) -> None:
    gate = asyncio.Event()
    roles = Roles(*committee("How many?", roles=["worker"]), committee_1="7", committee_2="7", committee_3=gate)
    await roles.join(troupe)
    target = [roles.worker]
    handle = await mesh.client.submit("an answer", strategy="plan", planner=roles.planner, roles=target)
    await until(lambda: len(roles.worked) == 3)
    await mesh.client.pause(handle.run_id)
    gate.set()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await handle.result()
    await mesh.client.resume(handle.run_id)
    assert answer_text(await handle.result(timeout=20)) == "7"


async def test_a_cancelled_copy_that_has_delegated_takes_its_delegation_with_it(mesh: Mesh, troupe: Troupe) -> None:
    ended = asyncio.Event()
    roles = Roles(*redundant(SubTask("x", "Do x", role="worker"), copies=2))
    helper = f"helper-{uuid.uuid4().hex[:6]}"

    async def work(task: TaskContext) -> str:
        if task.step_id == "x-1":
            return (await task.delegate("help", role=helper)).text
        await until(lambda: bool(helping))
        return "quick"

    helping: list[str] = []

    async def noted(task: TaskContext) -> str:
        helping.append(task.task_id)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    await troupe(roles.planner, roles.plan)
    await troupe(roles.worker, work, coordinator=True)
    await troupe(helper, noted)
    target = [roles.worker, helper]
    handle = await mesh.client.submit("an answer", strategy="plan", planner=roles.planner, roles=target, wait=20)
    assert answer_text(handle.run) == "quick"
    async with asyncio.timeout(10):
        await ended.wait()


class SlowOnce:
    """Instances of a role of which the one that is asked for the step `x-1` does not answer."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.role = f"cook-{uuid.uuid4().hex[:6]}"
        self.asked: list[tuple[str, str]] = []
        self.gate = asyncio.Event()

    async def join(self, troupe: Troupe) -> None:
        for name in ("one", "two"):

            async def work(task: TaskContext, name: str = name) -> str:
                self.asked.append((task.step_id, name))
                if task.step_id == "x-1":
                    await self.gate.wait()
                return f"{task.step_id} by {name}"

            await troupe(self.role, work, max_tasks=4)

    async def measure(self) -> None:
        """Completes enough attempts for a measured time, and waits until placement has it."""
        for _ in range(21):
            await self.mesh.client.submit("x", roles=[self.role], wait=10)
        await self.mesh.advance(3)

    async def submit(self, **options: Any) -> RunHandle:
        steps = hedged(SubTask("x", "Do x", role=self.role), 3_600, after="p95")
        plan = json.dumps({"goal": "do it", "subtasks": [asdict(step) for step in steps]})
        return await self.mesh.client.submit("do it", strategy="plan", plan=plan, roles=[self.role], **options)


async def test_a_hedge_after_the_measured_time_wins_over_a_slow_instance(own_mesh: Mesh) -> None:
    async with AsyncExitStack() as stack:
        cooks = SlowOnce(own_mesh)
        await cooks.join(Troupe(own_mesh, stack))
        await cooks.measure()
        cooks.asked.clear()
        handle = await cooks.submit(wait=20)
        assert handle.run.state == TaskState.COMPLETED, handle.run.failure
        (first, slow), (second, quick) = cooks.asked
        assert (first, second) == ("x-1", "x-2")
        assert slow != quick, "the copy is executed by another instance"
        assert answer_text(handle.run) == f"x-2 by {quick}"
        dispatches = [event.dispatched for event in of(await durable(handle), "dispatched")]
        assert 0 < dispatches[0].expected_seconds < 5
        assert [each.expected_seconds for each in dispatches[1:]] == [0.0]


async def test_a_hedge_keeps_its_measured_time_over_a_restart(own_mesh: Mesh) -> None:
    async with AsyncExitStack() as stack:
        cooks = SlowOnce(own_mesh)
        await cooks.join(Troupe(own_mesh, stack))
        await cooks.measure()
        cooks.asked.clear()
        handle = await cooks.submit()
        await until(lambda: bool(cooks.asked))
        await own_mesh.orchestrator.kill()
        await own_mesh.orchestrator.start()
        assert answer_text(await handle.result(timeout=20)).startswith("x-2 by ")


async def test_a_hedge_without_measured_attempts_waits_for_its_seconds(own_mesh: Mesh) -> None:
    async with AsyncExitStack() as stack:
        cooks = SlowOnce(own_mesh)
        await cooks.join(Troupe(own_mesh, stack))
        handle = await cooks.submit()
        await until(lambda: bool(cooks.asked))
        await own_mesh.advance(30)
        assert [step for step, _ in cooks.asked] == ["x-1"]
        cooks.gate.set()
        assert answer_text(await handle.result(timeout=20)).startswith("x-1 by ")


async def test_an_unserved_quantile_is_refused_with_the_plan(mesh: Mesh, troupe: Troupe) -> None:
    await troupe("baker", lambda task: "done")
    steps = [asdict(SubTask("x", "Do x", role="baker", delay_seconds=1.0, delay_quantile=0.5))]
    with pytest.raises(InvalidArgument, match=r"only 0\.95 is served"):
        await mesh.client.submit("x", strategy="plan", plan=json.dumps({"subtasks": steps}), roles=["baker"])
