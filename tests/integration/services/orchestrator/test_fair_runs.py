"""A run with hundreds of delegations does not keep other runs from the instances of a role."""

from __future__ import annotations

import asyncio

from archon.agent import AgentServer, AgentSettings, TaskContext
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import until

DELEGATIONS = 500


async def test_a_run_of_one_task_waits_for_a_few_tasks_of_a_run_with_hundreds(own_mesh: Mesh) -> None:
    calls, go_on = list[str](), asyncio.Event()

    async def leaf(task: TaskContext) -> str:
        calls.append(task.text)
        await go_on.wait()
        return "done"

    async def greedy(task: TaskContext) -> str:
        delegated = (task.delegate(f"part {number}", role="leaf") for number in range(DELEGATIONS))
        return str(len(await asyncio.gather(*delegated)))

    settings = AgentSettings(registry=own_mesh.registry.address, max_tasks=4)
    await own_mesh.join(AgentServer("leaf", handler=leaf, settings=settings))
    await own_mesh.join(AgentServer("greedy", handler=greedy, settings=settings))
    run = asyncio.create_task(own_mesh.client.run("all", roles=["greedy"], timeout=60))
    await until(lambda: len(calls) == 4)
    honest = [
        asyncio.create_task(own_mesh.client.run(f"honest {number}", roles=["leaf"], timeout=60)) for number in range(3)
    ]
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(*honest)
    assert await run == str(DELEGATIONS)
    last = max(number for number, goal in enumerate(calls) if goal.startswith("honest"))
    assert last < DELEGATIONS / 2, "the tasks of the large run that were executed before the last honest one"
