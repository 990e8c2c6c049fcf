"""Placement by records in a mesh: a bad instance gets fewer tasks, and each dispatch says why."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import asdict

from archon.agent import AgentServer, AgentSettings, TaskContext
from archon.api.orchestrator.v1 import run_pb2
from archon.client import Client, answer_text
from archon.errors import Internal
from archon.types import TaskState
from archon_mesh.planning import committee
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually


async def dispatches(client: Client, run_id: str) -> list[run_pb2.Dispatched]:
    return [event.proto.dispatched async for event in client.watch(run_id) if event.proto.HasField("dispatched")]


async def two_instances(mesh: Mesh, calls: Counter[str]) -> tuple[str, str]:
    """Starts a bad instance, which an idle mesh would always choose since its id is the first, and a good one."""
    settings = AgentSettings(registry=mesh.registry.address, max_tasks=4)
    servers: list[AgentServer] = []
    for number in range(2):

        async def work(task: TaskContext, number: int = number) -> str:
            if servers[number].instance_id == min(server.instance_id for server in servers):
                calls["bad"] += 1
                raise Internal("broken")
            calls["good"] += 1
            return "done"

        servers.append(AgentServer("cook", handler=work, settings=settings))
    for server in servers:
        await mesh.join(server)
    bad, good = sorted(server.instance_id for server in servers)
    return bad, good


async def test_a_bad_instance_gets_few_tasks_and_the_dispatch_says_why(own_mesh: Mesh) -> None:
    calls: Counter[str] = Counter()
    bad, good = await two_instances(own_mesh, calls)
    found: list[run_pb2.Dispatched] = []

    async def both_are_connected() -> bool:
        run = await own_mesh.client.submit("x", roles=["cook"], wait=10)
        found[:] = await dispatches(own_mesh.client, run.run_id)
        return found[0].HasField("placement")

    await eventually(both_are_connected)
    assert (found[0].instance_id, found[0].placement.reason) == (bad, "least_loaded")
    assert (found[0].placement.compared, list(found[0].placement.candidates)) == (2, [])
    for _ in range(9):
        await own_mesh.client.submit("x", roles=["cook"], wait=10)
    await own_mesh.advance(3)  # the factors follow
    calls.clear()
    runs = [await own_mesh.client.submit("x", roles=["cook"], wait=10) for _ in range(20)]
    assert calls["bad"] == 2 and calls["good"] == 18, "each tenth task goes to the one that has waited longest"
    assert sum(run.run.state is TaskState.COMPLETED for run in runs) == 18
    placements = [(await dispatches(own_mesh.client, run.run_id))[0] for run in runs]
    assert Counter(each.placement.reason for each in placements) == {"record": 18, "share": 2}
    chosen, other = next(each for each in placements if each.placement.reason == "record").placement.candidates
    assert (chosen.instance_id, other.instance_id) == (good, bad)
    assert chosen.factor < other.factor <= 2.0
    assert other.metrics.tasks > 9 and other.metrics.success_rate == 0.0
    await own_mesh.orchestrator.kill()
    await own_mesh.orchestrator.start()
    (again,) = await dispatches(own_mesh.client, runs[0].run_id)
    assert again == placements[0], "the reason is part of the journal"


async def test_a_vote_is_weighed_by_the_records_of_the_instances(own_mesh: Mesh) -> None:
    warming = True
    settings = AgentSettings(registry=own_mesh.registry.address, max_tasks=1)
    for name in ("wrong", "right"):

        async def work(task: TaskContext, name: str = name) -> str:
            if warming and name == "wrong":
                raise Internal("broken")
            return name

        await own_mesh.join(AgentServer("cook", handler=work, settings=settings))

    async def both_have_records() -> bool:
        await asyncio.gather(*(own_mesh.client.submit("x", roles=["cook"], wait=10) for _ in range(4)))
        records = [each for each in await own_mesh.client.instance_metrics("cook") if each.instance_id]
        return len(records) == 2 and all(record.tasks > 4 for record in records)

    await eventually(both_have_records)
    warming = False
    await own_mesh.advance(3)
    steps = committee("Which?", members=2, roles=["cook"], weights="record")
    plan = json.dumps({"goal": "x", "subtasks": [asdict(step) for step in steps]})
    handle = await own_mesh.client.submit("x", strategy="plan", plan=plan, roles=["cook"], wait=20)
    assert answer_text(handle.run) == "right", "without records, one vote against one is a tie"
    results = [event.proto.result async for event in own_mesh.client.watch(handle.run_id)]
    votes = next(each.resolution.votes for each in results if each.HasField("resolution"))
    assert len({vote.weight for vote in votes}) == 2, "the journal has the weights"


async def test_a_single_instance_has_no_placement(own_mesh: Mesh) -> None:
    await own_mesh.agent("alone")
    run = await own_mesh.client.submit("x", roles=["alone"], wait=10)
    (dispatched,) = await dispatches(own_mesh.client, run.run_id)
    assert not dispatched.HasField("placement")
