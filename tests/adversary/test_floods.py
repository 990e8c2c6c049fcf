"""Floods by clients, over bare stubs: what is too much is refused typed, memory stays bounded, and an honest run completes
beside the flood or right after it."""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import psutil
import pytest

from archon import status
from archon.agent import TaskContext
from archon.api.agent.v1 import agent_service_pb2_grpc
from archon.api.common.v1 import common_pb2
from archon.api.memory.v1 import memory_graph_service_pb2, memory_graph_service_pb2_grpc
from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import orchestrator_service_pb2_grpc
from archon.api.registry.v1 import registry_service_pb2, registry_service_pb2_grpc
from archon.client import answer_text
from archon.errors import DeadlineExceeded, ResourceExhausted, Unavailable
from archon.types import TaskState
from archon_services.orchestrator.api.converse_stream import MAX_STREAMS
from archon_services.orchestrator.watch.hub import MAX_BACKLOG_BYTES
from archon_services.testing import EtcdProcess
from tests.fixtures.mesh import ProcessMesh
from tests.fixtures.services import ServiceProcess
from tests.fixtures.waiting import eventually
from tests.integration.services.orchestrator.troupe import Troupe

COMPLETED = TaskState.COMPLETED
MB = 1024 * 1024
MAX_GROWTH = 6 * MAX_BACKLOG_BYTES + 200 * MB
"""Of an orchestrator whose readers do not read: the backlog is full, its bytes stand in pages, batches, messages and
what gRPC buffers, and each stream takes some memory."""


@pytest.fixture
async def stub(mesh: ProcessMesh) -> AsyncIterator[Any]:
    async with grpc.aio.insecure_channel(mesh.orchestrator.address) as channel:
        yield orchestrator_service_pb2_grpc.OrchestratorServiceStub(channel)


def rss(process: ServiceProcess) -> int:
    size: int = psutil.Process(process.pid).memory_info().rss
    return size


async def honest_run(mesh: ProcessMesh) -> None:
    """Runs a goal as a user does: again after the delay that a refusal names, or if the answer takes too long."""

    async def accepted() -> bool:
        try:
            run = (await mesh.client.submit("honest", roles=["requirements"], wait=10)).run
        except (ResourceExhausted, Unavailable, DeadlineExceeded) as error:
            await asyncio.sleep(error.retry_delay or 0.1)
            return False
        if run.state in (TaskState.SUBMITTED, TaskState.WORKING):
            return False  # it takes longer than the call
        assert (run.state, answer_text(run)) == (COMPLETED, "requirements()")
        return True

    await eventually(accepted, 120.0)


def check_logs(mesh: ProcessMesh) -> None:
    for process in (mesh.registry, mesh.memory, mesh.orchestrator, *mesh.processes):
        assert "Traceback" not in process.log.read_text(), process.log


async def reason_of(call: Any) -> str:
    """Returns why a call or a stream failed; empty if it succeeded."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        reason = status.from_rpc_error(error).reason
        return f"{reason}: {error.details()}" if reason == "UNAVAILABLE" else reason
    return ""


async def test_a_flood_of_submits_is_refused_until_runs_have_ended(etcd: EtcdProcess, tmp_path: Path) -> None:
    mesh = ProcessMesh(tmp_path, etcd.address)
    await mesh.start(ARCHON_MAX_RUNS="20")
    try:
        await mesh.agent_process("requirements", delay=0.2, ARCHON_MAX_TASKS="10")
        async with grpc.aio.insecure_channel(mesh.orchestrator.address) as channel:
            stub: Any = orchestrator_service_pb2_grpc.OrchestratorServiceStub(channel)
            request = pb.SubmitRunRequest(goal=[common_pb2.Part(text="flood")], roles=["requirements"])
            calls = [reason_of(stub.SubmitRun(request)) for _ in range(2_000)]
            reasons = Counter(await asyncio.gather(*calls))
        assert set(reasons) == {"", "RESOURCE_EXHAUSTED"}
        assert reasons[""] < 1_000
        await honest_run(mesh)
        check_logs(mesh)
    finally:
        await mesh.stop()


@pytest.mark.search
async def test_converse_streams_that_say_nothing_are_bounded(mesh: ProcessMesh, stub: Any) -> None:
    calls = [stub.Converse() for _ in range(MAX_STREAMS + 200)]
    refusals = 0

    async def read(call: Any) -> None:
        nonlocal refusals
        try:
            await call.read()
        except grpc.aio.AioRpcError as error:
            refused = status.from_rpc_error(error)
            assert isinstance(refused, ResourceExhausted)
            assert refused.retry_delay
            refusals += 1

    readers = [asyncio.create_task(read(call)) for call in calls]

    async def refused() -> bool:
        return refusals == 200

    await eventually(refused, 60.0)
    await honest_run(mesh)
    for reader in readers:
        reader.cancel()
    await asyncio.wait(readers)

    async def free() -> bool:
        call = stub.Converse(iter(()))
        return await reason_of(call.read()) == ""

    await eventually(free, 60.0)
    check_logs(mesh)


@pytest.mark.search
async def test_connections_that_send_next_to_nothing_hold_up_nobody(mesh: ProcessMesh) -> None:
    """A connection sends a byte of HTTP/2's preface at a time, or the preface and half a frame."""
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    sent = [b"", preface[:1], preface, preface + b"\x00\x00\x04", b"GET / HTTP/1.1\r\n", b"\x16\x03\x01"]
    sockets: list[socket.socket] = []
    processes = (mesh.registry, mesh.memory, mesh.orchestrator, mesh.processes[0])
    before = [rss(process) for process in processes]
    try:
        for number in range(1_000):
            process = processes[number % len(processes)]
            host, _, port = process.address.rpartition(":")
            sockets.append(socket.create_connection((host, int(port)), timeout=5))
            sockets[-1].sendall(sent[number % len(sent)])
        await honest_run(mesh)
        for process, size in zip(processes, before, strict=True):
            assert rss(process) - size < 100 * MB
        for connection in sockets[::7]:
            try:
                connection.sendall(b"\x00")
            except OSError:  # the server has closed it
                continue
        await honest_run(mesh)
    finally:
        for connection in sockets:
            connection.close()
    await honest_run(mesh)
    check_logs(mesh)


@pytest.mark.search
async def test_streams_to_an_agent_that_say_nothing_leave_it_to_others(mesh: ProcessMesh) -> None:
    process = mesh.processes[0]
    before = rss(process)
    async with grpc.aio.insecure_channel(process.address) as channel:
        stub: Any = agent_service_pb2_grpc.AgentServiceStub(channel)
        await asyncio.wait_for(channel.channel_ready(), 30.0)
        calls = [stub.Session() for _ in range(2_000)]
        reasons = await asyncio.gather(*(reason_of(call.read()) for call in calls[:1_500]))
        assert set(reasons) == {"RESOURCE_EXHAUSTED"}, "a further stream ends the oldest that was not opened"
        await honest_run(mesh)
        for call in calls:
            call.cancel()
    assert rss(process) - before < 100 * MB
    check_logs(mesh)


@pytest.mark.search
async def test_a_burst_of_tiny_calls_leaves_room_for_a_run(mesh: ProcessMesh) -> None:
    async with AsyncExitStack() as stack:

        async def channel(process: ServiceProcess) -> grpc.aio.Channel:
            return await stack.enter_async_context(grpc.aio.insecure_channel(process.address))

        runs: Any = orchestrator_service_pb2_grpc.OrchestratorServiceStub(await channel(mesh.orchestrator))
        registry: Any = registry_service_pb2_grpc.RegistryServiceStub(await channel(mesh.registry))
        memory: Any = memory_graph_service_pb2_grpc.MemoryGraphServiceStub(await channel(mesh.memory))
        calls = [
            lambda: runs.GetRun(pb.GetRunRequest(run_id="none")),
            lambda: runs.SubmitRun(pb.SubmitRunRequest()),
            lambda: runs.CancelRun(pb.CancelRunRequest(run_id="none")),
            lambda: registry.ResolveInstances(registry_service_pb2.ResolveInstancesRequest(role="none")),
            lambda: registry.DeregisterInstance(registry_service_pb2.DeregisterInstanceRequest(instance_id="")),
            lambda: memory.PullItems(memory_graph_service_pb2.PullItemsRequest(scope="none", role="")),
        ]
        processes = (mesh.registry, mesh.memory, mesh.orchestrator)
        before = [rss(process) for process in processes]
        reasons: Counter[str] = Counter()
        numbers = iter(range(6_000))

        async def worker() -> None:
            for number in numbers:
                reasons[await reason_of(calls[number % len(calls)]())] += 1

        workers = [asyncio.create_task(worker()) for _ in range(200)]
        await honest_run(mesh)
        await asyncio.gather(*workers)
        assert set(reasons) <= {"", "UNKNOWN_RUN", "UNKNOWN_ROLE", "EMPTY_GOAL", "INVALID_ARGUMENT"}, reasons
        for process, size in zip(processes, before, strict=True):
            assert rss(process) - size < 100 * MB
    await honest_run(mesh)
    check_logs(mesh)


@pytest.mark.search
@pytest.mark.parametrize(("how", "count"), [("watch", 1_200), ("converse", 150)])
async def test_readers_of_a_large_run_that_do_not_read_are_bounded(
    mesh: ProcessMesh, troupe: Troupe, stub: Any, how: str, count: int
) -> None:
    roles = [f"wordy-{uuid.uuid4().hex[:6]}" for _ in range(3)]

    async def wordy(task: TaskContext) -> str:
        return "x" * MB

    for role in roles:
        await troupe(role, wordy)
    run_id = (await (await mesh.client.submit("x", roles=roles)).result(timeout=60)).run_id
    before = rss(mesh.orchestrator)
    watch = pb.WatchRunRequest(run_id=run_id)
    if how == "watch":
        calls = [stub.WatchRun(watch) for _ in range(count)]
    else:
        command = pb.ConverseRequest(correlation_id="c", watch=watch)
        calls = [stub.Converse(iter([command])) for _ in range(count)]
    largest, last = 0, before

    async def full() -> bool:
        """Returns whether the orchestrator has not grown during a run: its server does not say that a stream is full."""
        nonlocal largest, last
        await honest_run(mesh)
        size = rss(mesh.orchestrator)
        grew, last, largest = size - last, size, max(largest, size - before)
        return largest > MB and grew < MB

    for _ in range(3):
        await eventually(full, 60.0, every=0.1)
    print(f"grew by {largest / MB:.0f} MB")
    assert largest < MAX_GROWTH
    for call in calls:
        call.cancel()
    check_logs(mesh)
