"""Registry, etcd and memory service killed or frozen for 30 seconds: runs continue, and the mesh recovers without
intervention. The six outages happen concurrently, each in a separate mesh."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from archon.errors import ArchonError, DeadlineExceeded, Unavailable, UnknownRole
from archon.memory import MemoryGraphClient
from archon_services.testing import EtcdProcess
from tests.fixtures.mesh import ProcessMesh
from tests.fixtures.waiting import eventually, hold, until
from tests.integration.services.orchestrator.outage import (
    ROLES,
    SESSION,
    TTL,
    Crew,
    Outage,
    Pulse,
    check_completed,
    started,
)

pytestmark = pytest.mark.search

OUTAGE = 30.0
HEALED_WITHIN = 15.0
CASES = [(service, how) for service in ("registry", "etcd", "memory") for how in ("killed", "frozen")]


@pytest.fixture(scope="module")
async def courses(
    etcd: EtcdProcess, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[dict[tuple[str, str], asyncio.Task[Course]]]:
    """The concurrent courses of all cases."""
    tasks = {
        case: asyncio.create_task(whole_course(etcd, tmp_path_factory.mktemp("-".join(case)), *case), name=str(case))
        for case in CASES
    }
    yield tasks
    for task in tasks.values():
        task.cancel()
    await asyncio.wait(tasks.values())


@pytest.mark.parametrize("case", CASES, ids="-".join)
async def test_durability_27_runs_continue_through_a_30_second_outage(
    courses: dict[tuple[str, str], asyncio.Task[Course]], case: tuple[str, str]
) -> None:
    course = await courses[case]
    assert course.lasted >= OUTAGE
    assert course.completed > 5, "new runs are accepted and complete during the outage"
    assert (course.late, course.registered) == ("late", True), "the mesh recovers"


@dataclass(frozen=True)
class Course:
    """A mesh that went through an outage of `lasted` seconds, in which `completed` new runs ended. `late` is the role
    that began to serve in the outage and answered after it. `registered`: after a lease more, all agents were still
    registered."""

    lasted: float
    completed: int
    late: str
    registered: bool


async def whole_course(shared: EtcdProcess, home: Path, service: str, how: str) -> Course:
    """Runs a mesh from its start through the outage until it has recovered."""
    async with AsyncExitStack() as stack, asyncio.timeout(180):
        etcd = shared
        if service == "etcd":
            etcd = EtcdProcess()
            stack.push_async_callback(asyncio.to_thread, etcd.close)
            await asyncio.to_thread(etcd.start)
        mesh = await started(home, etcd, stack)
        crew = await stack.enter_async_context(Crew(mesh.registry.address))
        memory = await stack.enter_async_context(MemoryGraphClient(mesh.memory.address, SESSION))
        await mesh.client.submit("warm", roles=list(ROLES), wait=30)
        outage = Outage(mesh, etcd, service, how)
        pulse = Pulse(mesh)
        stack.push_async_callback(pulse.abandon)
        course = await through(mesh, crew, memory, outage, pulse)
        await pulse.stop()
        await fed(memory, pulse)
    return course


async def through(mesh: ProcessMesh, crew: Crew, memory: MemoryGraphClient, outage: Outage, pulse: Pulse) -> Course:
    """Runs the outage and checks the mesh during it and right after it."""
    gates = {goal: crew.hold(goal) for goal in ("ends in the outage", "ends after it")}
    inside, across = [await mesh.client.submit(goal, roles=list(ROLES)) for goal in gates]

    async def both_begun() -> bool:
        return {("requirements", goal, 1) for goal in gates} <= set(crew.begun)

    await eventually(both_begun)
    await outage.begin()
    began = time.monotonic()
    joining = asyncio.create_task(crew.join("late", []))
    try:
        await asyncio.gather(*(refused(*call) for call in outage.calls(memory)))
        with pytest.raises(UnknownRole):
            await mesh.client.submit("x", roles=["absent"])
        gates["ends in the outage"].set()
        inside.run = await inside.result(timeout=15)
        check_completed(inside, "ends in the outage")
        before = pulse.completed
        await hold(began + OUTAGE - time.monotonic())
        pulse.check()
        completed, lasted = pulse.completed - before, time.monotonic() - began
    finally:
        await outage.end()
    await joining
    await eventually(lambda: registered(mesh, crew), HEALED_WITHIN)
    healed = time.monotonic()
    late = await mesh.client.submit("x", roles=["late"], wait=30)
    gates["ends after it"].set()
    across.run = await across.result(timeout=15)
    check_completed(across, "ends after it")
    await until(lambda: all(renewed > healed + TTL for renewed in crew.renewed), HEALED_WITHIN)
    return Course(lasted, completed, late.run.answers[0].role, await registered(mesh, crew))


async def refused(limit: float, call: Callable[[], Awaitable[object]]) -> None:
    """Asserts that the call fails with a typed error within the limit."""
    began = time.monotonic()
    with pytest.raises((Unavailable, DeadlineExceeded)):
        await call()
    assert time.monotonic() - began < limit + 3.0


async def registered(mesh: ProcessMesh, crew: Crew) -> bool:
    """Returns whether every agent is registered under its former instance id."""
    try:
        instance_ids = {instance.instance_id for instance in await mesh.directory.list_instances(timeout=2.0)}
    except ArchonError:
        return False
    return instance_ids == {agent.instance_id for agent in crew.agents.values()}


async def fed(memory: MemoryGraphClient, pulse: Pulse) -> None:
    """Waits until the memory service has every answer of the outage: one version for each run, the last answer
    newest."""

    async def look() -> bool:
        try:
            items = await memory.pull_for("implementer", timeout=2.0)
        except ArchonError:
            return False
        return [(item.source_id, item.version, item.content) for item in items] == [
            (role, pulse.completed, f"{role} on {pulse.goal}") for role in ("requirements", "designer")
        ]

    await eventually(look, HEALED_WITHIN)
