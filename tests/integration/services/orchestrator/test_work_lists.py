"""Work lists that the tasks of a run share, over a real mesh."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from archon.agent import TaskContext, WorkItem
from archon.client import answer_text
from archon.errors import FailedPrecondition, LeaseExpired, Unavailable
from archon.testing import FakeAgent, FakeOrchestrator
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import until
from tests.integration.services.orchestrator.sharing_crew import Crew, crew

__all__ = ["crew"]


async def test_three_members_do_fifty_items_once_each(mesh: Mesh, crew: Crew) -> None:
    done: list[tuple[str, int]] = []

    async def serve(task: TaskContext) -> str:
        work = task.work("pages")
        await work.add(range(50))
        async for item in work:
            done.append((task.task_id, item.value))
            await work.done(item, item.value + 1)
        return str(sum((await work.results()).done.values()))

    roles = [await crew(serve) for _ in range(3)]
    handle = await mesh.client.submit("x", roles=roles, strategy="pipeline", wait=30)
    assert sorted(value for _, value in done) == list(range(50))
    assert answer_text(handle.run).count("1275") >= 1


async def test_a_retried_task_goes_on_with_the_items_that_it_held(mesh: Mesh, crew: Crew) -> None:
    seen: list[tuple[int, str, int]] = []

    async def serve(task: TaskContext) -> str:
        work = task.work()
        await work.add({"1": "x", "2": "y"})
        async for item in work:
            seen.append((task.attempt, item.id, item.tries))
            if task.attempt == 1 and item.id == "2":
                raise Unavailable("the process of this attempt is lost")
            await work.done(item)
        return "all"

    role = await crew(serve)
    handle = await mesh.client.submit("x", roles=[role], wait=20)
    assert answer_text(handle.run) == "all"
    assert seen == [(1, "1", 1), (1, "2", 1), (2, "2", 2)]


async def test_two_lists_of_a_run_have_nothing_in_common(mesh: Mesh, crew: Crew) -> None:
    async def serve(task: TaskContext) -> str:
        one, other = task.work("one"), task.work("other")
        assert task.work("one") is one
        await one.add({"1": "x"})
        await other.add({"1": "y"})
        items = [await each.take() for each in (one, other)]
        assert all(items)
        with pytest.raises(LeaseExpired):
            await one.done(items[1])  # type: ignore[arg-type]
        await one.done(items[0], "of one")  # type: ignore[arg-type]
        await other.done(items[1], "of other")  # type: ignore[arg-type]
        assert await task.shared.list() == {}
        return f"{(await one.results()).done} {(await other.results()).done}"

    role = await crew(serve)
    handle = await mesh.client.submit("x", roles=[role], wait=20)
    assert answer_text(handle.run) == "{'1': 'of one'} {'1': 'of other'}"


async def test_what_a_handler_still_holds_is_free_when_it_returns(mesh: Mesh, crew: Crew) -> None:
    held: list[WorkItem | None] = []

    async def careless(task: TaskContext) -> str:
        await task.work().add({"1": "x"})
        held.append(await task.work().take())
        return "forgotten"

    async def careful(task: TaskContext) -> str:
        await until(lambda: bool(held))
        item = await task.work().take(10)
        assert item is not None
        await task.work().done(item)
        return f"try {item.tries}"

    roles = [await crew(careless), await crew(careful)]
    handle = await mesh.client.submit("x", roles=roles, strategy="pipeline", wait=20)
    assert "try 2" in answer_text(handle.run)


async def test_a_work_list_survives_a_killed_memory_service(own_mesh: Mesh) -> None:
    begun, restarted, done = asyncio.Event(), asyncio.Event(), []

    async def serve(task: TaskContext) -> str:
        work = task.work()
        await work.add(range(6))
        async for item in work:
            if item.number == 3:
                begun.set()
                await restarted.wait()
            done.append(item.value)
            await work.done(item, item.value)
        return str(len((await work.results()).done))

    async with AsyncExitStack() as stack:
        role = await Crew(own_mesh, stack)(serve)
        handle = await own_mesh.client.submit("x", roles=[role])
        await begun.wait()
        await own_mesh.memory.kill()
        restarted.set()
        await own_mesh.memory.start()
        assert answer_text(await handle.result(30)) == "6"
        assert sorted(done) == list(range(6))


async def test_a_work_list_survives_a_killed_orchestrator(own_mesh: Mesh) -> None:
    begun, restarted, done = asyncio.Event(), asyncio.Event(), []

    async def serve(task: TaskContext) -> str:
        work = task.work()
        await work.add(range(6))
        async for item in work:
            if item.number == 3:
                begun.set()
                await restarted.wait()
            done.append(item.value)
            await work.done(item, item.value)
        return str(len((await work.results()).done))

    async with AsyncExitStack() as stack:
        role = await Crew(own_mesh, stack)(serve)
        handle = await own_mesh.client.submit("x", roles=[role])
        await begun.wait()
        await own_mesh.orchestrator.kill()
        restarted.set()
        await own_mesh.orchestrator.start()
        assert answer_text(await handle.result(30)) == "6"
        assert sorted(done) == list(range(6))


async def test_without_a_memory_service_or_a_run_there_is_no_list(mesh: Mesh) -> None:
    def look(task: TaskContext) -> str:
        try:
            return str(task.work())
        except FailedPrecondition as error:
            return str(error)

    async with FakeAgent("x", [look, look]) as agent, FakeOrchestrator(agent.address) as peer:
        await peer.open()
        for ref, text in (
            (peer.ref("task-1"), "no memory service is configured"),
            (peer.ref("run-2", run_id="run-2"), "the task belongs to no run"),
        ):
            await peer.assign(ref, "x")
            assert text in (await peer.result(ref)).text
