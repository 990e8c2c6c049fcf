"""Delegated work that nobody needs any more stops, whoever it was that gave it up; every task comes to its end."""

from __future__ import annotations

import asyncio
import time

import pytest

from archon.agent import TaskContext
from archon.api.common.v1 import common_pb2, failure_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.client import RunHandle, answer_text
from archon.errors import DelegationTimeout
from tests.fixtures.mesh import Mesh
from tests.integration.services.orchestrator.troupe import Troupe, durable, of

pytestmark = pytest.mark.liveness

COMPLETED, CANCELED = common_pb2.TASK_STATE_COMPLETED, common_pb2.TASK_STATE_CANCELED
STOPPED_WITHIN = 1.0


class Sleeper:
    """Works until it is stopped; knows when it began and when it was stopped."""

    def __init__(self, lingers: float = 0.0) -> None:
        self.lingers = lingers
        self.begun = asyncio.Event()
        self.stopped = asyncio.Event()
        self.stopped_at = 0.0

    async def __call__(self, task: TaskContext) -> str:
        self.begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.stopped_at = time.monotonic()
            await asyncio.sleep(self.lingers)
        self.stopped.set()
        return "too late"

    def handler(self) -> object:
        async def work(task: TaskContext) -> str:
            return await self(task)

        return work


async def ended(handle: RunHandle, *states: common_pb2.TaskState.ValueType) -> run_pb2.Run:
    """The run, with its tasks in these states."""
    run = await handle.result(timeout=10)
    assert [task.state for task in run.tasks] == list(states)
    return run


async def test_contract_rule_8_a_delegation_out_of_time_is_answered_at_once_and_its_work_stops_within_a_second(
    mesh: Mesh, troupe: Troupe
) -> None:
    sleeper = Sleeper(lingers=0.4)
    answered_at = 0.0

    async def chef(task: TaskContext) -> str:
        nonlocal answered_at
        with pytest.raises(DelegationTimeout) as raised:
            await task.delegate("x", role="sleeper", timeout=0.5)
        answered_at = time.monotonic()
        assert not sleeper.stopped.is_set(), "nobody waits for it to stop"
        await sleeper.stopped.wait()
        return raised.value.metadata["role"]

    await troupe("sleeper", sleeper.handler())
    await troupe("chef", chef)
    asked = time.monotonic()
    handle = await mesh.client.submit("x", roles=["chef"], wait=10)
    assert answer_text(handle.run) == "sleeper"
    assert 0.5 <= answered_at - asked < 0.5 + STOPPED_WITHIN
    assert sleeper.stopped_at - asked < 0.5 + STOPPED_WITHIN
    run = await ended(handle, COMPLETED, CANCELED)
    assert run.tasks[1].failure.reason == failure_pb2.ERROR_REASON_DELEGATION_TIMEOUT
    events = await durable(handle)
    assert of(events, "task_state", "sleeper")[1].task_state.stopping


async def test_a_delegation_that_waits_for_an_instance_is_out_of_time_too(mesh: Mesh, troupe: Troupe) -> None:
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
    assert run.tasks[2].attempt == 0, "nobody ever had it"


async def test_cancelling_the_coroutine_that_waits_stops_the_others_work(mesh: Mesh, troupe: Troupe) -> None:
    sleeper = Sleeper()
    cancelled_at = 0.0

    async def chef(task: TaskContext) -> str:
        nonlocal cancelled_at
        asked = asyncio.create_task(task.delegate("x", role="sleeper"))
        await sleeper.begun.wait()
        cancelled_at = time.monotonic()
        asked.cancel()
        await sleeper.stopped.wait()
        return "went on"

    await troupe("sleeper", sleeper.handler())
    await troupe("chef", chef)
    handle = await mesh.client.submit("x", roles=["chef"], wait=10)
    assert answer_text(handle.run) == "went on"
    assert sleeper.stopped_at - cancelled_at < STOPPED_WITHIN
    await ended(handle, COMPLETED, CANCELED)
    assert len(of(await durable(handle), "delegation_cancelled")) == 1


async def test_what_is_waited_for_under_another_name_too_goes_on_where_one_wait_is_cancelled(
    mesh: Mesh, troupe: Troupe
) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def cook(task: TaskContext) -> str:
        begun.set()
        await release.wait()
        return "an egg"

    async def chef(task: TaskContext) -> str:
        one = asyncio.create_task(task.delegate("x", role="cook", memo_key="egg"))
        other = asyncio.create_task(task.delegate("x", role="cook", memo_key="egg"))
        await begun.wait()
        one.cancel()
        await asyncio.wait([one])
        await task.delegate("y", role="requirements")  # the cancel came before it
        release.set()
        return (await other).text

    await troupe("cook", cook)
    await troupe("chef", chef)
    handle = await mesh.client.submit("x", roles=["chef"], wait=10)
    assert answer_text(handle.run) == "an egg"
    await ended(handle, COMPLETED, COMPLETED, COMPLETED)


async def test_durability_22_what_a_task_delegated_and_did_not_wait_for_stops_when_it_ends(
    mesh: Mesh, troupe: Troupe
) -> None:
    sleeper, other = Sleeper(), Sleeper()

    async def middle(task: TaskContext) -> str:
        return (await task.delegate("x", role="other")).text

    async def chef(task: TaskContext) -> str:
        left = [asyncio.create_task(task.delegate(name, role=name)) for name in ("sleeper", "middle")]
        await asyncio.gather(sleeper.begun.wait(), other.begun.wait())
        assert not any(one.done() for one in left)
        return "never mind"

    await troupe("sleeper", sleeper.handler())
    await troupe("other", other.handler())
    await troupe("middle", middle)
    await troupe("chef", chef)
    handle = await mesh.client.submit("x", roles=["chef"], wait=10)
    assert answer_text(handle.run) == "never mind"
    await ended(handle, COMPLETED, CANCELED, CANCELED, CANCELED)
    async with asyncio.timeout(STOPPED_WITHIN):
        await asyncio.gather(sleeper.stopped.wait(), other.stopped.wait())


async def test_orphans_of_a_role_in_a_pipeline_stop_while_the_pipeline_goes_on(mesh: Mesh, troupe: Troupe) -> None:
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
    """The result and the end of the delegation's time come at the same moment, again and again."""

    async def cook(task: TaskContext) -> str:
        await asyncio.sleep(0.1)
        return "just in time"

    async def chef(task: TaskContext) -> str:
        said = []
        for number in range(10):
            try:
                said.append((await task.delegate(f"{number}", role="cook", timeout=0.1)).text)
            except DelegationTimeout:
                said.append("too late")
        return ", ".join(said)

    await troupe("cook", cook)
    await troupe("chef", chef)
    handle = await mesh.client.submit("x", roles=["chef"], wait=20)
    said = answer_text(handle.run).split(", ")
    events = await durable(handle)
    for task, heard in zip(handle.run.tasks[1:], said, strict=True):
        own = [event for event in events if event.task.task_id == task.task_id]
        results, discarded = of(own, "result"), of(own, "discarded")
        assert len(results) + len(discarded) == 1
        assert task.state == (results[0].result.state if results else CANCELED)
        assert heard == ("just in time" if task.state == COMPLETED else "too late")
        stops = [event for event in of(own, "task_state") if event.task_state.stopping]
        assert len(stops) == (task.state == CANCELED)


async def test_whoever_waits_for_an_answer_that_its_task_does_not_wait_for_waits_no_longer_than_the_task(
    mesh: Mesh, troupe: Troupe
) -> None:
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
    assert [one.cancelled() for one in done] == [True]
