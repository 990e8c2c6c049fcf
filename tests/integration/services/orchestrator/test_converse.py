"""Many runs on one stream."""

from __future__ import annotations

import asyncio
from collections import defaultdict

import pytest

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.client import submit_request
from archon.errors import EmptyGoal, InvalidArgument, Unavailable, UnknownRole, UnknownRun
from archon.testing import FakeAgent
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually


async def test_many_runs_on_one_stream_each_with_every_durable_event_once_and_in_order(mesh: Mesh) -> None:
    seen: dict[str, list[int]] = defaultdict(list)
    async with mesh.client.converse() as conversation:
        runs = await asyncio.gather(*(conversation.submit(submit_request(f"goal {n}")) for n in range(40)))
        await conversation.done()
        async for event in conversation:
            if event.seq:
                seen[event.run_id].append(event.seq)
    assert set(seen) == {run.run_id for run in runs}
    for run_id, seqs in seen.items():
        assert seqs == list(range(1, len(seqs) + 1))
        assert (await mesh.client.get(run_id)).last_seq == seqs[-1]


async def test_what_concerns_one_command_is_answered_in_place_and_the_stream_lives(mesh: Mesh) -> None:
    async with mesh.client.converse() as conversation:
        with pytest.raises(UnknownRole):
            await conversation.submit(submit_request("x", roles=["nobody"]))
        with pytest.raises(EmptyGoal):
            await conversation.submit(pb.SubmitRunRequest())
        with pytest.raises(UnknownRun):
            await conversation.cancel("nobody")
        with pytest.raises(UnknownRun):
            await conversation.watch("nobody")
        with pytest.raises(InvalidArgument):
            await conversation._command(pb.ConverseRequest())
        with pytest.raises(UnknownRun):
            await conversation.respond("nobody", "q", "answer")
        run = await conversation.submit(submit_request("x"))
        await conversation.done()
        events = [event async for event in conversation]
    assert events[-1].run_state.state == common_pb2.TASK_STATE_COMPLETED
    assert {event.run_id for event in events} == {run.run_id}


async def test_a_run_is_cancelled_on_the_stream_that_follows_it(mesh: Mesh) -> None:
    async with (
        FakeAgent("sleepy", [lambda task: asyncio.sleep(60)], registry=mesh.registry.address) as agent,
        mesh.client.converse() as conversation,
    ):
        run = await conversation.submit(submit_request("sleep", roles=["sleepy"]))

        async def begun() -> bool:
            return bool(agent.tasks)

        await eventually(begun)
        await conversation.cancel(run.run_id, "enough")
        await conversation.done()
        events = [event async for event in conversation]
    assert events[-1].run_state.state == common_pb2.TASK_STATE_CANCELED


async def test_the_same_request_id_on_two_streams_is_one_run_and_both_see_it(mesh: Mesh) -> None:
    request = submit_request("once", request_id="the-same-on-two")
    async with mesh.client.converse() as one, mesh.client.converse() as other:
        first, second = await asyncio.gather(one.submit(request), other.submit(request))
        assert first.run_id == second.run_id
        await one.done()
        await other.done()
        seen = [[event.seq async for event in stream if event.seq] for stream in (one, other)]
    assert seen[0] == seen[1]


async def test_a_repeated_request_has_its_answer_though_its_role_is_gone(mesh: Mesh) -> None:
    async with FakeAgent("fleeting", ["here"], registry=mesh.registry.address) as agent:
        first = await mesh.client.submit("x", roles=["fleeting"], request_id="fleeting-1", wait=10)
        address = agent.address
    await mesh.seen(address, gone=True)
    again = await mesh.client.submit("x", roles=["fleeting"], request_id="fleeting-1")
    assert again.run_id == first.run_id


async def test_a_stream_ends_with_unavailable_when_the_orchestrator_goes(own_mesh: Mesh) -> None:
    mesh = own_mesh
    await mesh.agent("solo", delay=2.0)
    async with mesh.client.converse() as conversation:
        await conversation.submit(submit_request("x", roles=["solo"]))
        stopping = asyncio.create_task(mesh.orchestrator.stop())
        with pytest.raises(Unavailable):
            async for _ in conversation:
                pass
        assert await stopping == 0
