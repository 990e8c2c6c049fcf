"""Agents that cannot be dialled: they attach to an orchestrator, and work like any other."""

from __future__ import annotations

import asyncio

import pytest

from archon.agent import AgentServer, AgentSettings, TaskContext, reachability
from archon.api.agent.v1 import session_pb2
from archon.api.common.v1 import common_pb2
from archon.api.registry.v1 import registry_pb2
from archon.client import answer_text
from archon.errors import (
    Aborted,
    ArchonError,
    FailedPrecondition,
    InvalidArgument,
    PermissionDenied,
    ResourceExhausted,
    TokenInvalid,
    Unavailable,
)
from archon.testing.frame_orchestrator import FrameOrchestrator
from archon.types import TaskState
from archon_services.orchestrator.attach import instance, relay
from archon_services.testing.link import Link
from tests.fixtures.mesh import Mesh
from tests.fixtures.ports import free_ports
from tests.fixtures.replicas import Replicas
from tests.fixtures.waiting import eventually, hold
from tests.integration.services.orchestrator.attached import instances, raw


def attached(role: str, orchestrator: str, handler: object = None, **options: object) -> AgentServer:
    """Returns an agent of this role that attaches to an orchestrator, not started."""

    async def answer(task: TaskContext) -> str:
        return f"{role}: {task.text}"

    settings = AgentSettings(attach=orchestrator, ttl=2.0)
    return AgentServer(role, handler=handler or answer, settings=settings, **options)  # type: ignore[arg-type]


async def gone(mesh: Mesh, role: str, within: float) -> None:
    """Waits until no instance of a role is registered."""

    async def look() -> bool:
        return not await instances(mesh, role)

    await eventually(look, within)


async def test_an_attached_agent_works_in_a_run_and_leaves_the_registry_when_it_stops(mesh: Mesh) -> None:
    async with attached("poet", mesh.orchestrator.address):
        [found] = await instances(mesh, "poet")
        assert (found.address, found.via_orchestrator) == ("", mesh.orchestrator.address)
        handle = await mesh.client.submit("a rose", roles=["poet"], wait=10)
        assert answer_text(handle.run) == "poet: a rose"
    assert await instances(mesh, "poet") == []


async def test_attached_and_dialled_agents_work_in_one_run(mesh: Mesh) -> None:
    async with (
        attached("poet", mesh.orchestrator.address),
        attached("critic", mesh.orchestrator.address, depends_on=["poet"]),
    ):
        await mesh.agent("editor", "critic")
        run = (await mesh.client.submit("a rose", roles=["poet", "critic", "editor"], wait=10)).run
        assert run.state is TaskState.COMPLETED
        assert {task.role for task in run.tasks} == {"poet", "critic", "editor"}


async def test_an_attempt_goes_on_when_the_connection_of_an_attached_agent_breaks(mesh: Mesh) -> None:
    began, go_on, attempts = asyncio.Event(), asyncio.Event(), []

    async def write(task: TaskContext) -> str:
        attempts.append(task.attempt)
        began.set()
        await go_on.wait()
        return "done"

    async with Link(int(mesh.orchestrator.address.rpartition(":")[2])) as link, attached("poet", link.address, write):
        handle = await mesh.client.submit("a rose", roles=["poet"])
        await asyncio.wait_for(began.wait(), 5.0)
        link.cut()
        await hold(0.3)
        go_on.set()
        run = await handle.result(10.0)
        assert run.state is TaskState.COMPLETED
        assert attempts == [1]
        assert len(await instances(mesh, "poet")) == 1


@pytest.mark.slow
@pytest.mark.liveness
async def test_an_attached_agent_that_is_cut_off_is_deregistered_and_its_task_given_to_another(mesh: Mesh) -> None:
    began = asyncio.Event()

    async def hang(task: TaskContext) -> str:
        began.set()
        await hold(30.0)
        return "late"

    async with Link(int(mesh.orchestrator.address.rpartition(":")[2])) as link:
        far = attached("poet", link.address, hang)
        await far.start()
        handle = await mesh.client.submit("a rose", roles=["poet"])
        await asyncio.wait_for(began.wait(), 5.0)
        async with attached("poet", mesh.orchestrator.address):
            link.shut()
            run = await handle.result(10.0)
            assert answer_text(run) == "poet: a rose"
            assert [task.attempt for task in run.tasks] == [2]
        await gone(mesh, "poet", 10.0)
        link.open()
        await far.stop(0.0)


async def test_both_replicas_reach_an_agent_that_is_attached_to_one(replicas: Replicas) -> None:
    async with attached("poet", replicas.second.address):
        for client in (replicas.client, replicas.other):
            handle = await client.submit("a rose", roles=["poet"], wait=10)
            assert answer_text(handle.run) == "poet: a rose"


@pytest.mark.liveness
async def test_an_agent_attaches_to_another_replica_when_its_own_dies_and_keeps_its_attempts(
    replicas: Replicas,
) -> None:
    began, go_on, attempts = asyncio.Event(), asyncio.Event(), []

    async def write(task: TaskContext) -> str:
        attempts.append(task.attempt)
        began.set()
        await go_on.wait()
        return "done"

    async with Link(int(replicas.second.address.rpartition(":")[2])) as link, attached("poet", link.address, write):
        [before] = await instances(replicas, "poet")
        handle = await replicas.client.submit("a rose", roles=["poet"])
        await asyncio.wait_for(began.wait(), 5.0)
        link.server_port = int(replicas.orchestrator.address.rpartition(":")[2])
        await replicas.second.kill()
        link.cut()
        await hold(0.5)
        go_on.set()
        run = await handle.result(10.0)
        assert (run.state, attempts) == (TaskState.COMPLETED, [1])
        [after] = await instances(replicas, "poet")
        assert after.instance_id == before.instance_id
        assert after.via_orchestrator == replicas.orchestrator.address


async def test_the_smallest_attached_member_answers_open_with_ready_and_a_task_with_a_result(mesh: Mesh) -> None:
    async with raw(mesh.orchestrator.address) as member:
        await member.register("rhymer-1", "rhymer")
        opened = await member.frame()
        assert opened.open.instance_id == "rhymer-1"
        ready = session_pb2.Ready(instance_id="rhymer-1", protocol=1, max_tasks=1, role="rhymer")
        await member.send(session_pb2.AgentFrame(ready=ready))
        submitted = asyncio.create_task(mesh.client.submit("a rose", roles=["rhymer"], wait=10))
        while (frame := await member.frame()).WhichOneof("frame") != "assign_task":
            await member.send(session_pb2.AgentFrame(heartbeat=session_pb2.Heartbeat(echo=frame.heartbeat.counter)))
        answer = session_pb2.AgentFrame(task=frame.task, sequence=1)
        answer.result.state = common_pb2.TASK_STATE_COMPLETED
        answer.result.output.add(text="a rose")
        await member.send(answer)
        assert answer_text((await submitted).run) == "a rose"


@pytest.mark.parametrize(
    ("ready", "reason"),
    [
        (session_pb2.Ready(instance_id="a"), "registration"),
        (session_pb2.Ready(instance_id="a", registration=registry_pb2.Registration(instance_id="b", role="r")), "same"),
        (session_pb2.Ready(registration=registry_pb2.Registration(role="r")), "not empty"),
        (
            session_pb2.Ready(instance_id="a", registration=registry_pb2.Registration(instance_id="a", role="R!")),
            "role",
        ),
    ],
)
async def test_a_registration_that_is_invalid_ends_the_stream_with_a_typed_error(
    mesh: Mesh, ready: session_pb2.Ready, reason: str
) -> None:
    async with raw(mesh.orchestrator.address) as member:
        await member.send(session_pb2.AgentFrame(ready=ready))
        with pytest.raises(InvalidArgument, match=reason):
            await member.frame()


async def test_a_first_message_that_is_no_registration_ends_the_stream_with_a_typed_error(mesh: Mesh) -> None:
    for message, error in ((b"\xff\xff", InvalidArgument), (b"", FailedPrecondition)):
        async with raw(mesh.orchestrator.address) as member:
            await member.send_raw(message)
            with pytest.raises(error):
                await member.frame()


async def test_an_instance_id_that_another_client_has_attached_is_refused(mesh: Mesh) -> None:
    async with raw(mesh.orchestrator.address, "a" * 16) as first, raw(mesh.orchestrator.address, "b" * 16) as second:
        await first.register("singer-10")
        assert (await first.frame()).open.instance_id == "singer-10"
        await second.register("singer-10")
        with pytest.raises(PermissionDenied):
            await second.frame()


async def test_frames_before_open_end_the_stream(mesh: Mesh) -> None:
    async with raw(mesh.orchestrator.address) as first, raw(mesh.orchestrator.address) as spare:
        await first.register("singer-11")
        assert (await first.frame()).HasField("open")
        await spare.register("singer-11")
        await spare.send(session_pb2.AgentFrame(heartbeat=session_pb2.Heartbeat(counter=1)))
        with pytest.raises(FailedPrecondition, match="before Open"):
            await spare.frame()


async def test_a_session_with_an_instance_that_is_not_attached_is_refused(mesh: Mesh) -> None:
    async with FrameOrchestrator(mesh.orchestrator.address) as peer:
        await peer.send(peer.opening("stranger-1"))
        error = await peer.ended()
        assert isinstance(error, Unavailable)
        assert "is not attached here" in str(error)


async def test_an_orchestrator_that_stops_ends_the_streams_and_leaves_the_registration_to_others(
    own_mesh: Mesh,
) -> None:
    async with raw(own_mesh.orchestrator.address, "a" * 16) as member:
        await member.register("singer-1")
        assert (await member.frame()).HasField("open")
        await own_mesh.orchestrator.stop()
        with pytest.raises((ArchonError, EOFError)):
            while True:
                await member.frame()
        assert [each.instance_id for each in await instances(own_mesh, "singer")] == ["singer-1"]


async def test_an_agent_that_no_orchestrator_can_dial_attaches_by_itself(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reachability, "UNREACHED_AFTER", 0.2)
    [unused] = free_ports(1)
    settings = AgentSettings(
        registry=mesh.registry.address, advertise=f"127.0.0.1:{unused}", orchestrator=mesh.orchestrator.address
    )
    async with AgentServer("hidden", handler=lambda task: "done", settings=settings):

        async def is_attached() -> bool:
            return [each.via_orchestrator for each in await instances(mesh, "hidden")] == [mesh.orchestrator.address]

        await eventually(is_attached)
        handle = await mesh.client.submit("x", roles=["hidden"], wait=10)
        assert answer_text(handle.run) == "done"
    assert await instances(mesh, "hidden") == []


async def test_an_agent_that_an_orchestrator_has_dialled_does_not_attach(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reachability, "UNREACHED_AFTER", 0.05)
    settings = AgentSettings(registry=mesh.registry.address, orchestrator=mesh.orchestrator.address)
    async with AgentServer("open", handler=lambda task: "done", settings=settings) as agent:
        await mesh.client.submit("x", roles=["open"], wait=10)

        async def is_decided() -> bool:
            return not agent._reachability.running

        await eventually(is_decided)
        assert [each.address for each in await instances(mesh, "open")] == [agent.address]


async def test_agents_that_attach_above_the_limit_are_refused(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "MAX_INSTANCES", 0)
    async with raw(mesh.orchestrator.address) as member:
        await member.register("singer-20")
        with pytest.raises(ResourceExhausted) as refused:
            await member.frame()
        assert refused.value.retry_delay == 5.0


async def test_the_oldest_of_too_many_spare_streams_ends(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance, "MAX_SPARES", 1)
    async with raw(mesh.orchestrator.address) as session:
        await session.register("singer-21")
        assert (await session.frame()).HasField("open")
        async with raw(mesh.orchestrator.address) as first, raw(mesh.orchestrator.address) as second:
            await first.register("singer-21")
            await first.registered()
            await second.register("singer-21")
            with pytest.raises(Aborted) as ended:
                await first.frame()
            assert ended.value.reason == "SESSION_REPLACED"


async def test_an_agent_whose_token_is_no_token_fails_at_its_start(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHON_TOKEN", "no token")
    with pytest.raises(TokenInvalid, match="ARCHON_TOKEN has no token"):
        await attached("poet", mesh.orchestrator.address).start()
