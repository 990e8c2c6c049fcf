"""A mesh that is stopped, and started again after its wall clock was set back by ten days."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from archon import AgentServer, TaskContext
from archon.agent import AgentSettings, Question
from archon.api.common.v1 import failure_pb2
from archon.errors import Unavailable
from archon.types import TaskState
from archon_services.common import machine
from tests.fixtures.mesh import Mesh
from tests.integration.services.orchestrator.test_people import clerk, first_question

TEN_DAYS = 864_000.0
COMPLETED = TaskState.COMPLETED

pytestmark = pytest.mark.parametrize("boot", ["same", "another"])


@pytest.fixture
async def own_mesh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Mesh]:
    monkeypatch.setattr(machine, "boot_id", lambda: "same")
    mesh = Mesh(tmp_path)
    await mesh.start(ARCHON_PAUSE_TIMEOUT="30")
    yield mesh
    await mesh.stop()


async def restart(mesh: Mesh, boot: str, monkeypatch: pytest.MonkeyPatch, jump: float = -TEN_DAYS) -> None:
    """Stops the orchestrator and starts it again after the wall clock was set, as if in this boot of the machine."""
    await mesh.orchestrator.stop()
    wall = machine.wall_time
    monkeypatch.setattr(machine, "wall_time", lambda: wall() + jump)
    monkeypatch.setattr(machine, "boot_id", lambda: boot)
    await mesh.orchestrator.start()


async def test_durability_31_a_retry_waits_no_longer_than_it_says(
    own_mesh: Mesh, monkeypatch: pytest.MonkeyPatch, boot: str
) -> None:
    attempts = 0

    async def flaky(task: TaskContext) -> str:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise Unavailable("not yet", retry_delay=5.0)
        return "done"

    await agent(own_mesh, "flaky", flaky)
    handle = await own_mesh.client.submit("x", roles=["flaky"])
    async with aclosing(handle.events()) as events:
        async for event in events:
            if event.type == "retry":
                break
    await restart(own_mesh, boot, monkeypatch)
    await own_mesh.advance(6.0)
    run = await handle.result(timeout=10)
    assert (run.state, attempts) == (COMPLETED, 2)


@pytest.mark.parametrize("jump", [-TEN_DAYS, TEN_DAYS])
async def test_durability_31_limits_of_time_keep_their_length(
    own_mesh: Mesh, monkeypatch: pytest.MonkeyPatch, boot: str, jump: float
) -> None:
    if boot == "another" and jump > 0:
        pytest.skip("a clock that is ahead after a boot cannot be told from ten days without power")

    async def wait(task: TaskContext) -> str:
        await asyncio.Event().wait()
        return "never"

    await agent(own_mesh, "waiting", wait)
    await agent(own_mesh, "asking", clerk)
    timed = await own_mesh.client.submit("x", roles=["waiting"], timeout=30.0)
    asking = await own_mesh.client.submit("x", roles=["asking"])
    await first_question(own_mesh, asking)
    await restart(own_mesh, boot, monkeypatch, jump)
    await own_mesh.advance(10.0)
    assert {(await own_mesh.client.get(run.run_id)).end_time for run in (timed, asking)} == {0}
    await own_mesh.advance(25.0)
    reasons = [(await run.result(timeout=10)).proto.failure.reason for run in (timed, asking)]
    # The agent counts its time down too, and may be first.
    assert reasons[0] in (failure_pb2.ERROR_REASON_RUN_TIMEOUT, failure_pb2.ERROR_REASON_DEADLINE_EXCEEDED)
    assert reasons[1] == failure_pb2.ERROR_REASON_PAUSE_EXPIRED


async def test_runs_after_it_are_the_newest_and_have_the_true_time(
    own_mesh: Mesh, monkeypatch: pytest.MonkeyPatch, boot: str
) -> None:
    await own_mesh.agent("echo")
    before = await own_mesh.client.submit("x", roles=["echo"], wait=10)
    await restart(own_mesh, boot, monkeypatch)
    after = await own_mesh.client.submit("x", roles=["echo"], wait=10)
    assert after.run_id > before.run_id
    assert [run.run_id for run in await own_mesh.client.list_runs()] == [after.run_id, before.run_id]
    assert abs(after.run.create_time - machine.wall_time()) < 60.0


async def agent(mesh: Mesh, role: str, handler: Callable[[TaskContext], Awaitable[str | Question]]) -> None:
    settings = AgentSettings(registry=mesh.registry.address)
    await mesh.join(AgentServer(role, handler=handler, description=f"is {role}", settings=settings))
