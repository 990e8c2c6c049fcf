"""Delegations whose real processes die: finished work is not repeated, and no task waits for ever."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import AsyncExitStack
from typing import Any

import pytest

from archon.agent import TaskContext
from archon.client import answer_text
from archon.errors import DelegationTimeout
from archon.types import RunEvent, TaskState
from tests.fixtures.bare_agent import BareAgent
from tests.fixtures.mesh import Mesh
from tests.fixtures.services import ServiceProcess
from tests.fixtures.waiting import eventually
from tests.integration.services.orchestrator.test_outages import NOTICED_WITHIN, begun
from tests.integration.services.orchestrator.troupe import Troupe

pytestmark = pytest.mark.liveness

STOPPED_WITHIN = 1.0


async def lead(mesh: Mesh, role: str, *targets: str, delay: float = 0.0, **environment: str) -> ServiceProcess:
    """Starts a process that delegates to the target roles."""
    return await mesh.agent_process(
        role, module="tests.fixtures.delegating_agent", delay=delay, DELEGATES=",".join(targets), **environment
    )


def kinds(events: list[RunEvent]) -> list[str]:
    return [event.type for event in events if event.seq]


async def noted(mesh: Mesh, verb: str, role: str, attempt: int = 1) -> None:
    async def look() -> bool:
        return (role, attempt) in mesh.executions(verb)

    await eventually(look, 10.0)


@pytest.mark.search
async def test_durability_22_a_killed_coordinator_keeps_its_answers(own_mesh: Mesh) -> None:
    mesh = own_mesh
    gate = asyncio.Event()
    await mesh.agent("cook")
    await mesh.agent("waiter", gate=gate)
    first = await lead(mesh, "chef", "cook", "waiter")
    handle = await mesh.client.submit("x", roles=["chef"])
    await begun(mesh, "waiter")
    await first.kill()
    await lead(mesh, "chef", "cook", "waiter")
    gate.set()
    run = await handle.result(timeout=10)
    assert answer_text(run) == "chef[cook(), waiter()] cook,waiter at waiter"
    assert sorted(mesh.executions()) == [("chef", 2), ("cook", 1), ("waiter", 1)]
    assert [(task.role, task.attempt) for task in run.tasks] == [("chef", 2), ("cook", 1), ("waiter", 1)]


async def test_a_killed_delegate_is_replaced_for_its_coordinator(own_mesh: Mesh) -> None:
    mesh = own_mesh
    victim = await mesh.agent_process("cook", delay=1.0)
    await lead(mesh, "chef", "cook")
    handle = await mesh.client.submit("x", roles=["chef"])
    await begun(mesh, "cook")
    killed = time.monotonic()
    await victim.kill()
    await mesh.agent("cook")
    await begun(mesh, "cook", attempt=2)
    assert time.monotonic() - killed < NOTICED_WITHIN + 1.0  # includes the start of the second agent
    assert answer_text(await handle.result(timeout=10)) == "chef[cook()]"
    assert mesh.executions() == [("cook", 2), ("chef", 1)]


@pytest.mark.search
async def test_a_frozen_coordinator_is_replaced_and_its_frames_ignored(own_mesh: Mesh) -> None:
    mesh = own_mesh
    gate = asyncio.Event()
    await mesh.agent("cook", gate=gate)
    await mesh.agent("waiter")
    first = await lead(mesh, "chef", "cook", "waiter")
    handle = await mesh.client.submit("x", roles=["chef"])
    await begun(mesh, "cook")
    first.send(signal.SIGSTOP)
    gate.set()
    await lead(mesh, "chef", "cook", "waiter", delay=2.0)
    await begun(mesh, "chef", attempt=2)
    first.send(signal.SIGCONT)
    assert answer_text(await handle.result(timeout=15)).startswith("chef[cook(), waiter()] cook")
    assert [execution for execution in mesh.executions() if execution[0] != "chef"] == [("cook", 1), ("waiter", 1)]


@pytest.mark.search
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_killed_orchestrator_resumes_a_task_that_waits(own_mesh: Mesh, moment: str) -> None:
    mesh = own_mesh
    gate = asyncio.Event()
    await mesh.agent("cook")
    await mesh.agent("waiter", gate=gate)
    await lead(mesh, "chef", "cook", "waiter", delay=0.3)
    handle = await mesh.client.submit("x", roles=["chef"])
    await begun(mesh, "waiter")
    await mesh.orchestrator.kill()
    if moment == "after":
        gate.set()
        await noted(mesh, "end", "waiter")  # the agent parks its result
    await mesh.orchestrator.start()
    gate.set()
    run = await handle.result(timeout=15)
    assert answer_text(run) == "chef[cook(), waiter()]"
    assert sorted(mesh.executions()) == [("chef", 1), ("cook", 1), ("waiter", 1)]
    assert [task.attempt for task in run.tasks] == [1, 1, 1]


@pytest.mark.search
async def test_durability_25_coordinators_with_one_slot_never_block(own_mesh: Mesh) -> None:
    mesh = own_mesh
    await lead(mesh, "left", "helper", ARCHON_MAX_TASKS="1")
    await lead(mesh, "right", "left", ARCHON_MAX_TASKS="1")
    await lead(mesh, "boss", "left", ARCHON_MAX_TASKS="1")
    await mesh.agent_process("helper", delay=0.2, ARCHON_MAX_TASKS="1")
    handles = [await mesh.client.submit(f"x{n}", roles=[role]) for n in range(4) for role in ("right", "boss", "left")]
    runs = await asyncio.gather(*(handle.result(timeout=20) for handle in handles))
    assert {run.state for run in runs} == {TaskState.COMPLETED}
    assert sum(role == "helper" for role, _ in mesh.executions()) == len(runs)
    assert all(attempt == 1 for _, attempt in mesh.executions("begin"))  # no attempt was rejected


@pytest.mark.parametrize("how", ["cancelled", "out of time"])
async def test_delegated_work_stops_promptly_on_cancel_and_deadline(own_mesh: Mesh, how: str) -> None:
    mesh = own_mesh
    await mesh.agent("cook", gate=asyncio.Event())
    await lead(mesh, "chef", "cook")
    more: dict[str, Any] = {"timeout": 1.5} if how == "out of time" else {}
    handle = await mesh.client.submit("x", roles=["chef"], **more)
    await begun(mesh, "cook")
    if how == "cancelled":
        await handle.cancel("enough")
    run = await handle.result(timeout=1.5 + STOPPED_WITHIN)
    assert run.state in (TaskState.CANCELED, TaskState.FAILED)
    stopped = {TaskState.CANCELED}
    if how == "out of time":  # an agent's own clock may stop its task a moment earlier
        stopped.add(TaskState.FAILED)
    assert {task.state for task in run.tasks} <= stopped
    events = [event async for event in handle.events()]
    orders = [event.time for event in events if event.type == "cancel_requested"]
    ends = [event.data["state"] for event in events if event.type == "result"]
    assert len(ends) == 2 and set(ends) <= stopped  # both agents reported that they had stopped
    due = orders[0] if orders else run.create_time + 1.5
    assert events[-1].time - due < STOPPED_WITHIN


@pytest.mark.search
async def test_a_killed_orchestrator_repeats_its_stop_after_a_restart(own_mesh: Mesh) -> None:
    """The agent ignores the stop that it receives on its first stream; the next stream repeats it."""
    release = asyncio.Event()

    async def chef(task: TaskContext) -> str:
        with pytest.raises(DelegationTimeout):
            await task.delegate("x", role="stubborn", timeout=0.2)
        await release.wait()
        return "done"

    mesh = own_mesh
    features = ("cancel", "adopt", "delegate")
    stubborn = BareAgent("stubborn", mesh.registry.address, lambda frame: [], features=features)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(stubborn)
        await Troupe(mesh, stack)("chef", chef)
        await mesh.seen(stubborn.address)
        handle = await mesh.client.submit("x", roles=["chef"])

        def epochs_of_cancels() -> list[int]:
            return [frame.task.epoch for frame in stubborn.frames if frame.WhichOneof("frame") == "cancel_task"]

        async def stopped() -> bool:
            return bool(epochs_of_cancels())

        await eventually(stopped, 10.0)
        await mesh.orchestrator.kill()
        await mesh.orchestrator.start()

        async def stopped_again() -> bool:
            return max(epochs_of_cancels()) > 1

        await eventually(stopped_again, 5.0)
        release.set()
        run = await handle.result(timeout=10)
        assert [task.state for task in run.tasks] == [TaskState.COMPLETED, TaskState.CANCELED]
