"""The Converse stream: many runs on one stream."""

from __future__ import annotations

import asyncio
from collections import defaultdict

import pytest

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.errors import EmptyGoal, InvalidArgument, Unavailable, UnknownRole, UnknownRun
from archon.testing import FakeAgent
from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually


async def test_each_run_of_a_stream_gives_every_durable_event_once(mesh: Mesh) -> None:
    seqs_by_run: dict[str, list[int]] = defaultdict(list)
    async with mesh.client.converse() as conversation:
        runs = await asyncio.gather(*(conversation.submit(f"goal {n}") for n in range(40)))
        await conversation.done()
        async for event in conversation:
            if event.seq:
                seqs_by_run[event.run_id].append(event.seq)
    assert set(seqs_by_run) == {run.run_id for run in runs}
    for run_id, seqs in seqs_by_run.items():
        assert seqs == list(range(1, len(seqs) + 1))
        assert (await mesh.client.get(run_id)).last_seq == seqs[-1]


async def test_an_invalid_command_is_answered_and_the_stream_continues(mesh: Mesh) -> None:
    async with mesh.client.converse() as conversation:
        with pytest.raises(UnknownRole):
            await conversation.submit("x", roles=["absent"])
        with pytest.raises(EmptyGoal):
            await conversation.submit([])
        with pytest.raises(UnknownRun):
            await conversation.cancel("absent")
        with pytest.raises(UnknownRun):
            await conversation.watch("absent")
        with pytest.raises(InvalidArgument):
            await conversation._command(pb.ConverseRequest())
        with pytest.raises(UnknownRun):
            await conversation.respond("absent", "q", "answer")
        run = await conversation.submit("x")
        await conversation.done()
        events = [event async for event in conversation]
    assert events[-1].proto.run_state.state == common_pb2.TASK_STATE_COMPLETED
    assert {event.run_id for event in events} == {run.run_id}


async def test_a_run_is_cancelled_on_the_stream_that_follows_it(mesh: Mesh) -> None:
    async with (
        FakeAgent("sleepy", [lambda task: asyncio.Event().wait()], registry=mesh.registry.address) as agent,
        mesh.client.converse() as conversation,
    ):
        run = await conversation.submit("sleep", roles=["sleepy"])

        async def begun() -> bool:
            return bool(agent.tasks)

        await eventually(begun)
        await conversation.cancel(run.run_id, "enough")
        await conversation.done()
        events = [event async for event in conversation]
    assert events[-1].proto.run_state.state == common_pb2.TASK_STATE_CANCELED


async def test_one_request_id_on_two_streams_is_one_run(mesh: Mesh) -> None:
    async with mesh.client.converse() as first, mesh.client.converse() as second:
        runs = await asyncio.gather(
            *(stream.submit("once", request_id="the-same-on-two") for stream in (first, second))
        )
        assert runs[0].run_id == runs[1].run_id
        await first.done()
        await second.done()
        seqs = [[event.seq async for event in stream if event.seq] for stream in (first, second)]
    assert seqs[0] == seqs[1]


async def test_a_repeated_request_gives_its_run_after_its_role_is_gone(mesh: Mesh) -> None:
    async with FakeAgent("fleeting", ["here"], registry=mesh.registry.address) as agent:
        first = await mesh.client.submit("x", roles=["fleeting"], request_id="fleeting-1", wait=10)
        address = agent.address
    await mesh.seen(address, gone=True)
    again = await mesh.client.submit("x", roles=["fleeting"], request_id="fleeting-1")
    assert again.run_id == first.run_id


async def test_a_stream_ends_unavailable_when_the_orchestrator_stops(own_mesh: Mesh) -> None:
    mesh = own_mesh
    await mesh.agent("solo", gate=asyncio.Event())
    async with mesh.client.converse() as conversation:
        await conversation.submit("x", roles=["solo"])
        stopping = asyncio.create_task(mesh.orchestrator.stop())
        with pytest.raises(Unavailable):
            async for _ in conversation:
                pass
        assert await stopping == 0
