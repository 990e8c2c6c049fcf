"""The drain of an agent: it accepts nothing new, finishes tasks in progress, and stops within its grace period."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from archon import errors, status
from archon.agent import AgentServer, AgentSettings, TaskContext
from archon.registry import RegistryClient
from archon.testing import FakeAgent
from archon_services.registry.app import registry_app
from archon_services.registry.settings import RegistrySettings
from tests.fixtures.agents import Dial, Gate, Serve

IN_MEMORY: dict[str, Any] = {"etcd": "memory"}


async def test_a_drain_finishes_tasks_and_takes_no_new_ones(serve: Serve, dial: Dial, gate: Gate) -> None:
    agent = await serve(gate.handle)
    peer = await dial(agent)
    ref, refused = peer.ref("one"), peer.ref("two")
    await peer.assign(ref)
    await gate.reached()
    stopping = asyncio.create_task(agent.stop())
    await peer.receive("drain")
    assert (await peer.receive("credit")).credit.max_tasks == 0
    await peer.assign(refused)
    rejected = await peer.receive("reject")
    assert (rejected.task, status.from_failure(rejected.reject.failure).reason) == (refused, "DRAINING")
    health: Any = health_pb2_grpc.HealthStub(peer._channel)
    response = await health.Check(health_pb2.HealthCheckRequest(service=""), timeout=5.0)
    assert response.status == health_pb2.HealthCheckResponse.NOT_SERVING
    gate.open.set()
    assert (await peer.result(ref)).output[0].text == "done"
    assert await peer.ended() is None
    await asyncio.wait_for(stopping, 5.0)


async def test_a_drain_waits_for_results_to_be_acked(serve: Serve, dial: Dial) -> None:
    async def echo(task: TaskContext) -> str:
        return task.text

    agent = await serve(echo)
    peer = await dial(agent)
    ref = peer.ref("one")
    await peer.assign(ref)
    frame = await peer.receive("result")
    stopping = asyncio.create_task(agent.stop())
    await peer.receive("drain")
    assert not stopping.done()
    await peer.send(peer.acknowledgement(ref, frame.sequence))
    await asyncio.wait_for(stopping, 2.0)


async def test_a_handler_that_ignores_cancel_does_not_block_a_drain(
    dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archon.agent.attempt_table.STOP_GRACE", 0.1)
    begun, released = asyncio.Event(), asyncio.Event()

    async def stubborn(task: TaskContext) -> str:
        begun.set()
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                pass
        return "never"

    agent = AgentServer("worker", handler=stubborn, settings=AgentSettings())
    await agent.start()
    peer = await dial(agent)
    await peer.assign(peer.ref("one"))
    await asyncio.wait_for(begun.wait(), 5.0)
    began = time.monotonic()
    await agent.stop(grace=0.1)
    assert time.monotonic() - began < 2.5
    assert not any(
        frame.HasField("result") for frame in peer.frames
    )  # the task is lost, not canceled, and is executed elsewhere
    released.set()


async def test_stop_is_idempotent_and_works_before_start(serve: Serve, gate: Gate) -> None:
    agent = await serve(gate.handle)
    await asyncio.gather(agent.stop(), agent.stop())
    await agent.stop()
    await AgentServer("worker", handler=gate.handle, settings=AgentSettings()).stop()


async def test_an_agent_without_a_handler_does_not_start() -> None:
    with pytest.raises(errors.FailedPrecondition, match=r"@agent\.task"):
        await AgentServer("worker", settings=AgentSettings()).start()


async def test_a_port_that_is_taken_is_named(serve: Serve, gate: Gate) -> None:
    taken = int((await serve(gate.handle)).address.rpartition(":")[2])
    with pytest.raises(errors.Unavailable, match=str(taken)):
        await AgentServer("worker", handler=gate.handle, settings=AgentSettings(port=taken)).start()


async def test_an_agent_registers_at_start_and_deregisters_at_stop() -> None:
    async with (
        registry_app(RegistrySettings(**IN_MEMORY)) as registry,
        RegistryClient(registry) as client,
    ):
        async with FakeAgent("translator", registry=registry, depends_on=["author"]) as agent:
            (instance,) = await client.resolve("translator")
            assert (instance.instance_id, instance.address) == (agent.instance_id, agent.address)
            assert [edge.upstream for edge in (await client.get_graph()).edges] == ["author"]
        with pytest.raises(errors.UnknownRole):
            await client.resolve("translator")


async def test_a_refused_registration_fails_the_start_cleanly() -> None:
    async with registry_app(RegistrySettings(**IN_MEMORY)) as registry:
        agent = FakeAgent("translator", registry=registry, depends_on=[f"author-{number}" for number in range(100)])
        with pytest.raises(errors.InvalidArgument):
            await agent.server.start()
        health = agent.server.address
        with pytest.raises(OSError):
            await asyncio.open_connection(*health.split(":"))
