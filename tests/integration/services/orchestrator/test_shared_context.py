"""Values that the tasks of a run share: `TaskContext.shared`, over a real mesh."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from archon.agent import TaskContext
from archon.client import answer_text
from archon.errors import Aborted, FailedPrecondition
from archon.memory import WorkingMemoryClient
from archon.testing import FakeAgent, FakeOrchestrator
from archon.types import MessageType
from tests.fixtures.mesh import Mesh
from tests.integration.services.orchestrator.sharing_crew import Crew, crew

__all__ = ["crew"]


async def test_tasks_of_a_run_share_values_with_versions(mesh: Mesh, crew: Crew) -> None:
    async def handler(task: TaskContext) -> str:
        shared = task.shared
        assert (await shared.get("plan"), await shared.get("plan", "none")) == (None, "none")
        assert await shared.set("plan", {"n": 1}, 0) == 1
        with pytest.raises(Aborted) as refused:
            await shared.set("plan", {"n": 2}, 0)
        assert refused.value.reason == "CONFLICT"
        assert await shared.set("plan", {"n": 2}, 1) == 2
        value = await shared.get_value("plan")
        assert value is not None
        assert (value.key, value.value, value.version) == ("plan", {"n": 2}, 2)
        await shared.set("draft.a", "x")
        assert await shared.list("draft.") == {"draft.a": "x"}
        assert (await shared.delete("draft.a"), await shared.delete("draft.a")) == (True, False)
        return "shared"

    role = await crew(handler)
    handle = await mesh.client.submit("x", roles=[role], wait=10)
    assert answer_text(handle.run) == "shared"
    async with WorkingMemoryClient(mesh.memory.address, handle.run_id) as values:
        assert await values.to_dict() == {"plan": {"n": 2}}


async def test_concurrent_updates_lose_no_write(mesh: Mesh, crew: Crew) -> None:
    async def count(task: TaskContext) -> str:
        for _ in range(10):
            await task.shared.update("count", lambda count: count + 1, 0)
        return "counted"

    roles = [await crew(count) for _ in range(4)]
    handle = await mesh.client.submit("x", roles=roles, strategy="pipeline", wait=20)
    async with WorkingMemoryClient(mesh.memory.address, handle.run_id) as values:
        assert (await values.get("count"), await values.version("count")) == (40, 40)


async def test_a_task_watches_the_values_of_another_one(mesh: Mesh, crew: Crew) -> None:
    watching = asyncio.Event()

    async def watch(task: TaskContext) -> str:
        seen: list[Any] = []
        async with aclosing(task.shared.watch("page.")) as changes:
            watching.set()
            async for change in changes:
                seen.append((change.key, change.value and change.value.value))
                if change.key == "page.last":
                    break
        return str(seen[-1])

    async def write(task: TaskContext) -> str:
        await watching.wait()
        for name in ("first", "last"):
            await task.shared.set(f"page.{name}", name)
        return "written"

    reader, writer = await crew(watch), await crew(write)
    handle = await mesh.client.submit("x", roles=[reader, writer], strategy="pipeline", wait=20)
    assert "('page.last', 'last')" in answer_text(handle.run)


async def test_a_value_is_announced_to_those_who_subscribed(mesh: Mesh, crew: Crew) -> None:
    async def listen(task: TaskContext) -> str:
        async for message in task.messages("type:information_share", timeout=10):
            assert message.message_type is MessageType.INFORMATION_SHARE
            return str(message.content)
        return "nothing"

    async def share(task: TaskContext) -> str:
        await task.shared.set("quiet", 1)
        await task.shared.set("fact", {"n": 1}, announce=True)
        return "shared"

    reader, writer = await crew(listen), await crew(share)
    handle = await mesh.client.submit("x", roles=[reader, writer], strategy="pipeline", wait=20)
    assert "'key': 'fact'" in answer_text(handle.run)


async def test_without_a_memory_service_or_a_run_nothing_is_shared(mesh: Mesh) -> None:
    def look(task: TaskContext) -> str:
        try:
            return str(task.shared)
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
