"""Delegated work stops when no task waits for it any more; every task ends."""

from __future__ import annotations

import asyncio
import time

import pytest

from archon.agent import TaskContext
from archon.api.common.v1 import failure_pb2
from archon.client import RunHandle, answer_text
from archon.errors import DelegationTimeout
from archon.types import Run, TaskState
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import hold
from tests.integration.services.orchestrator.troupe import Troupe, durable, of

pytestmark = pytest.mark.liveness

COMPLETED, CANCELED = TaskState.COMPLETED, TaskState.CANCELED
STOPPED_WITHIN = 1.0


class Sleeper:
    """A handler that works until it is stopped, and records when it began and when it was stopped.

    It has no answer then: if an agent's own timer is first, an answer may still be in time."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.begun = asyncio.Event()
        self.stopped = asyncio.Event()
        self.stopped_at = 0.0

    async def __call__(self, task: TaskContext) -> str:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped_at = time.monotonic()
            await self.may_end.wait()
            self.stopped.set()
        raise AssertionError("nothing sets the event")

    def handler(self) -> object:
        async def work(task: TaskContext) -> str:
            return await self(task)

        return work


async def ended(handle: RunHandle, *states: TaskState) -> Run:
    """Waits for the run's end, asserts the states of its tasks, and returns it."""
    run = await handle.result(timeout=10)
    assert [task.state for task in run.tasks] == list(states)
    return run


async def test_contract_rule_8_a_delegation_out_of_time_stops_promptly(mesh: Mesh, troupe: Troupe) -> None:
    sleeper = Sleeper()
    sleeper.may_end.clear()
    answered_at = 0.0

    async def chef(task: TaskContext) -> str:
        nonlocal answered_at
        with pytest.raises(DelegationTimeout) as raised:
            await task.delegate("x", role="sleeper", timeout=0.5)
        answered_at = time.monotonic()
        sleeper.may_end.set()  # the delegation fails before its task has stopped
        await sleeper.stopped.wait()
        return raised.value.metadata["role"]

    await troupe("sleeper", sleeper.handler())
    await troupe("chef", chef)
    submitted = time.monotonic()
    handle = await mesh.client.submit("x", roles=["chef"], wait=10)
    assert answer_text(handle.run) == "sleeper"
    assert 0.5 <= answered_at - submitted < 0.5 + STOPPED_WITHIN
    assert sleeper.stopped_at - submitted < 0.5 + STOPPED_WITHIN
    run = await ended(handle, COMPLETED, CANCELED)
    assert run.tasks[1].proto.failure.reason == failure_pb2.ERROR_REASON_DELEGATION_TIMEOUT
    events = await durable(handle)
    assert of(events, "task_state", "sleeper")[1].task_state.stopping


async def test_a_delegation_times_out_while_it_waits_for_an_instance(mesh: Mesh, troupe: Troupe) -> None:
    sleeper = Sleeper()

    async def chef(task: TaskContext) -> str:
        busy = asyncio.create_task(task.delegate("x", role="sleeper"))
        await sleeper.begun.wait()
        with pytest.raises(DelegationTimeout):
            await task.delegate("y", role="sleeper", timeout=0.3)
        busy.cancel()
        return "gave up"

    await troupe("sleeper", sleeper.handler(), max_tasks=1)
    await troupe("chef", chef)
    handle = await mesh.client.submit("x", roles=["chef"], wait=10)
    assert answer_text(handle.run) == "gave up"
    run = await ended(handle, COMPLETED, CANCELED, CANCELED)
    assert run.tasks[2].attempt == 0, "it was never dispatched"


async def test_cancelling_the_waiting_coroutine_stops_the_delegation(mesh: Mesh, troupe: Troupe) -> None:
    sleeper = Sleeper()
    cancelled_at = 0.0

    async def chef(task: TaskContext) -> str:
        nonlocal cancelled_at
        delegation = asyncio.create_task(task.delegate("x", role="sleeper"))
        await sleeper.begun.wait()
        cancelled_at = time.monotonic()
        delegation.cancel()
        await sleeper.stopped.wait()
        return "went on"

    await troupe("sleeper", sleeper.handler())
    await troupe("chef", chef)
    handle = await mesh.client.submit("x", roles=["chef"], wait=10)
    assert answer_text(handle.run) == "went on"
    assert sleeper.stopped_at - cancelled_at < STOPPED_WITHIN
    await ended(handle, COMPLETED, CANCELED)
    assert len(of(await durable(handle), "delegation_cancelled")) == 1


async def test_a_memoized_delegation_continues_while_a_task_waits(mesh: Mesh, troupe: Troupe) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def cook(task: TaskContext) -> str:
        begun.set()
        await release.wait()
        return "an egg"

    async def chef(task: TaskContext) -> str:
        first = asyncio.create_task(task.delegate("x", role="cook", memo_key="egg"))
        second = asyncio.create_task(task.delegate("x", role="cook", memo_key="egg"))
        await begun.wait()
        first.cancel()
        await asyncio.wait([first])
        await task.delegate("y", role="requirements")  # the cancel was sent before this delegation
        release.set()
        return (await second).text

    await troupe("cook", cook)
    await troupe("chef", chef)
    handle = await mesh.client.submit("x", roles=["chef"], wait=10)
    assert answer_text(handle.run) == "an egg"
    await ended(handle, COMPLETED, COMPLETED, COMPLETED)


async def test_durability_22_delegations_stop_when_their_parent_ends(mesh: Mesh, troupe: Troupe) -> None:
    sleeper, nested = Sleeper(), Sleeper()

    async def middle(task: TaskContext) -> str:
        return (await task.delegate("x", role="nested")).text

    async def chef(task: TaskContext) -> str:
        delegations = [asyncio.create_task(task.delegate(name, role=name)) for name in ("sleeper", "middle")]
        await asyncio.gather(sleeper.begun.wait(), nested.begun.wait())
        assert not any(delegation.done() for delegation in delegations)
        return "never mind"

    await troupe("sleeper", sleeper.handler())
    await troupe("nested", nested.handler())
    await troupe("middle", middle)
    await troupe("chef", chef)
    handle = await mesh.client.submit("x", roles=["chef"], wait=10)
    assert answer_text(handle.run) == "never mind"
    await ended(handle, COMPLETED, CANCELED, CANCELED, CANCELED)
    async with asyncio.timeout(STOPPED_WITHIN):
        await asyncio.gather(sleeper.stopped.wait(), nested.stopped.wait())


async def test_orphans_stop_while_their_pipeline_continues(mesh: Mesh, troupe: Troupe) -> None:
    sleeper = Sleeper()

    async def editor(task: TaskContext) -> str:
        left = asyncio.create_task(task.delegate("x", role="sleeper"))
        await sleeper.begun.wait()
        assert not left.done()
        return "edited"

    async def printer(task: TaskContext) -> str:
        await sleeper.stopped.wait()
        return "printed"

    await troupe("sleeper", sleeper.handler())
    await troupe("editor", editor)
    await troupe("printer", printer, depends_on=["editor"])
    handle = await mesh.client.submit("x", roles=["editor", "printer"], wait=10)
    assert answer_text(handle.run) == "printed"
    await ended(handle, COMPLETED, COMPLETED, CANCELED)


async def test_a_late_result_against_a_stop_has_one_winner(mesh: Mesh, troupe: Troupe) -> None:
    """Delegations time out at the moment of their result, ten times."""

    async def cook(task: TaskContext) -> str:
        await hold(0.1)
        return "just in time"

    async def chef(task: TaskContext) -> str:
        outcomes = []
        for number in range(10):
            try:
                outcomes.append((await task.delegate(f"{number}", role="cook", timeout=0.1)).text)
            except DelegationTimeout:
                outcomes.append("too late")
        return ", ".join(outcomes)

    await troupe("cook", cook)
    await troupe("chef", chef)
    handle = await mesh.client.submit("x", roles=["chef"], wait=20)
    outcomes = answer_text(handle.run).split(", ")
    events = await durable(handle)
    for task, outcome in zip(handle.run.tasks[1:], outcomes, strict=True):
        own = [event for event in events if event.task.task_id == task.task_id]
        results, discarded = of(own, "result"), of(own, "discarded")
        assert len(results) + len(discarded) == 1
        assert task.state == (TaskState.from_proto(results[0].result.state) if results else CANCELED)
        assert outcome == ("just in time" if task.state == COMPLETED else "too late")
        stops = [event for event in of(own, "task_state") if event.task_state.stopping]
        assert len(stops) == (task.state == CANCELED)


async def test_a_delegation_is_cancelled_when_its_task_returns(mesh: Mesh, troupe: Troupe) -> None:
    left: list[asyncio.Task[object]] = []
    sleeper = Sleeper()

    async def chef(task: TaskContext) -> str:
        left.append(asyncio.create_task(task.delegate("x", role="sleeper", timeout=600.0)))
        await sleeper.begun.wait()
        return "never mind"

    await troupe("sleeper", sleeper.handler())
    await troupe("chef", chef)
    await mesh.client.submit("x", roles=["chef"], wait=10)
    done, _ = await asyncio.wait(left, timeout=STOPPED_WITHIN)
    assert [delegation.cancelled() for delegation in done] == [True]
