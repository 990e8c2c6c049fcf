"""Registry, etcd and memory service away for half a minute, killed or frozen: runs go on, and everything heals by
itself. All six outages happen at once, each to a mesh of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from archon.errors import ArchonError, DeadlineExceeded, Unavailable, UnknownRole
from archon.memory import MemoryGraphClient
from archon_services.testing import EtcdProcess
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually
from tests.integration.services.orchestrator.outage import ROLES, SESSION, Crew, Outage, Pulse, check_completed, started

pytestmark = pytest.mark.liveness

OUTAGE = 30.0
HEALED_WITHIN = 15.0
CASES = [(service, how) for service in ("registry", "etcd", "memory") for how in ("killed", "frozen")]


@pytest.fixture(scope="module")
async def courses(
    etcd: EtcdProcess, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[dict[tuple[str, str], asyncio.Task[None]]]:
    """All that happens, under way at once."""
    tasks = {
        case: asyncio.create_task(whole_course(etcd, tmp_path_factory.mktemp("-".join(case)), *case), name=str(case))
        for case in CASES
    }
    yield tasks
    for task in tasks.values():
        task.cancel()
    await asyncio.wait(tasks.values())


@pytest.mark.parametrize("case", CASES, ids="-".join)
async def test_durability_27_runs_go_on_through_an_outage_of_half_a_minute_and_everything_heals_by_itself(
    courses: dict[tuple[str, str], asyncio.Task[None]], case: tuple[str, str]
) -> None:
    await courses[case]


async def whole_course(shared: EtcdProcess, home: Path, service: str, how: str) -> None:
    """From an empty mesh to one that has healed."""
    async with AsyncExitStack() as stack, asyncio.timeout(110):
        etcd = shared
        if service == "etcd":
            etcd = EtcdProcess()
            stack.push_async_callback(asyncio.to_thread, etcd.close)
            await asyncio.to_thread(etcd.start)
        mesh = await started(home, etcd, stack)
        crew = await stack.enter_async_context(Crew(mesh.registry.address))
        memory = await stack.enter_async_context(MemoryGraphClient(mesh.memory.address, SESSION))
        await mesh.client.submit("warm", roles=list(ROLES), wait=10)
        outage = Outage(mesh, etcd, service, how)
        pulse = Pulse(mesh)
        stack.push_async_callback(pulse.abandon)
        await through(mesh, crew, memory, outage, pulse)
        await pulse.stop()
        await fed(memory, pulse)


async def through(mesh: Mesh, crew: Crew, memory: MemoryGraphClient, outage: Outage, pulse: Pulse) -> None:
    """The outage itself, and the first moments after it."""
    gates = {goal: crew.hold(goal) for goal in ("ends in the outage", "ends after it")}
    inside, across = [await mesh.client.submit(goal, roles=list(ROLES)) for goal in gates]

    async def both_begun() -> bool:
        return {("requirements", goal, 1) for goal in gates} <= set(crew.begun)

    await eventually(both_begun)
    await outage.begin()
    end = asyncio.get_running_loop().time() + OUTAGE
    joining = asyncio.create_task(crew.join("late", []))
    try:
        await asyncio.gather(*(refused(*call) for call in outage.calls(memory)))
        with pytest.raises(UnknownRole):
            await mesh.client.submit("x", roles=["nobody"])
        gates["ends in the outage"].set()
        inside.run = await inside.result(timeout=5)
        check_completed(inside, "ends in the outage")
        before = pulse.completed
        await asyncio.sleep(end - asyncio.get_running_loop().time())
        pulse.check()
        assert pulse.completed > before + 5, "new runs are taken on and complete all the time"
    finally:
        await outage.end()
    await joining
    await eventually(lambda: registered(mesh, crew), HEALED_WITHIN)
    late = await mesh.client.submit("x", roles=["late"], wait=10)
    assert late.run.answers[0].role == "late"
    gates["ends after it"].set()
    across.run = await across.result(timeout=5)
    check_completed(across, "ends after it")
    await asyncio.sleep(3.0)  # a lease, in which whoever wasn't renewed would be gone again
    assert await registered(mesh, crew)


async def refused(limit: float, call: Callable[[], Awaitable[object]]) -> None:
    """Fails typed, and in time."""
    began = time.monotonic()
    with pytest.raises((Unavailable, DeadlineExceeded)):
        await call()
    assert time.monotonic() - began < limit + 1.0


async def registered(mesh: Mesh, crew: Crew) -> bool:
    """Every agent, under the id that it had."""
    try:
        found = {one.instance_id for one in await mesh.directory.list_instances(timeout=2.0)}
    except ArchonError:
        return False
    return found == {agent.instance_id for agent in crew.agents.values()}


async def fed(memory: MemoryGraphClient, pulse: Pulse) -> None:
    """What was published meanwhile is there: a version for each run, none lost, none twice, the last one last."""

    async def look() -> bool:
        try:
            items = await memory.pull_for("implementer", timeout=2.0)
        except ArchonError:
            return False
        return [(one.source_id, one.version, one.content) for one in items] == [
            (role, pulse.completed, f"{role} on {pulse.goal}") for role in ("requirements", "designer")
        ]

    await eventually(look, HEALED_WITHIN)
