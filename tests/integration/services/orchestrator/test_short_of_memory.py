"""An agent or an orchestrator whose memory is short."""

from __future__ import annotations

import asyncio

import pytest

from archon.agent import AgentServer, AgentSettings, TaskContext
from archon.client import answer_text
from archon.errors import ResourceExhausted
from archon.memory_room import MemoryRoom
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import until
from tests.integration.services.orchestrator.troupe import durable, of


async def test_a_task_that_found_no_memory_goes_to_another_instance(own_mesh: Mesh) -> None:
    called = list[str]()
    settings = AgentSettings(registry=own_mesh.registry.address, max_tasks=4)
    for name in ("one", "two"):

        async def work(task: TaskContext, name: str = name) -> str:
            called.append(name)
            if task.attempt == 1:
                raise MemoryError
            return f"attempt {task.attempt}"

        await own_mesh.join(AgentServer("w", handler=work, settings=settings))
    handle = await own_mesh.client.submit("x", roles=["w"], wait=20)
    assert answer_text(handle.run) == "attempt 2"
    assert sorted(called) == ["one", "two"]
    (retried,) = of(await durable(handle), "retry")
    assert retried.retry.failure.kind == "infrastructure.out_of_memory"


async def test_an_instance_that_is_short_of_memory_takes_one_task_at_a_time(
    own_mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, most, go_on = list[str](), list[int](), asyncio.Event()
    at_once = 0

    async def work(task: TaskContext) -> str:
        nonlocal at_once
        at_once += 1
        most.append(at_once)
        begun.append(task.text)
        await go_on.wait()
        at_once -= 1
        return "done"

    settings = AgentSettings(registry=own_mesh.registry.address, max_tasks=4)
    agent = AgentServer("w", handler=work, settings=settings)
    await own_mesh.join(agent)
    monkeypatch.setattr(MemoryRoom, "short", property(lambda room: room is agent.attempts.memory))
    agent.attempts.changed()
    runs = [asyncio.create_task(own_mesh.client.run(str(number), roles=["w"], timeout=30)) for number in range(4)]
    await until(lambda: bool(begun))
    go_on.set()
    assert await asyncio.gather(*runs) == ["done"] * 4
    assert max(most) == 1


async def test_an_orchestrator_that_is_short_of_memory_refuses_new_runs_alone(
    own_mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = asyncio.Event()
    await own_mesh.agent("w", gate=go_on)
    handle = await own_mesh.client.submit("x", roles=["w"])
    with monkeypatch.context() as short:
        short.setattr(MemoryRoom, "short", True)
        with pytest.raises(ResourceExhausted, match="the orchestrator is short of memory") as raised:
            await own_mesh.client.submit("y", roles=["w"])
        assert (raised.value.kind, raised.value.retry_delay) == ("infrastructure.out_of_memory", 1.0)
        go_on.set()
        assert answer_text(await handle.result(timeout=20)) == "w()"
    assert answer_text((await own_mesh.client.submit("y", roles=["w"], wait=20)).run) == "w()"
