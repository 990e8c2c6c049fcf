"""An agent that floods its orchestrator, over bare stubs: memory and journal stay bounded, and others are served."""

from __future__ import annotations

import asyncio
import base64
import random
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from archon import status
from archon.api.agent.v1 import agent_pb2, agent_service_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.client import answer_text
from archon.errors import ResourceExhausted
from archon.types import TaskState
from archon_services.orchestrator.sessions.in_flight import MAX_SESSION_BYTES
from archon_services.testing import EtcdProcess
from tests.fixtures.bare_agent import BareAgent, Frame, Replies
from tests.fixtures.mesh import ProcessMesh
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.waiting import eventually, hold, until

pytestmark = pytest.mark.search

AgentFrame = session_pb2.AgentFrame
MB = 1024 * 1024
GROWTH = 4 * MAX_SESSION_BYTES
"""The most that an orchestrator may grow by one session that is full: its bytes stand in messages and in frames."""


class Flooder:
    """Says nothing of its task until the test sends something for it."""

    def __init__(self, mesh: ProcessMesh) -> None:
        self.mesh = mesh
        self.role = f"flooder-{uuid.uuid4().hex[:6]}"
        self.agent: BareAgent
        self.task = common_pb2.TaskRef()

    def answer(self, frame: Frame) -> Replies:
        if frame.WhichOneof("frame") == "assign_task":
            self.task = frame.task
        return []

    async def assigned(self) -> bool:
        return bool(self.task.task_id)

    def frame(self, sequence: int, **content: object) -> AgentFrame:
        return AgentFrame(task=self.task, sequence=sequence, **content)  # type: ignore[arg-type]


@pytest.fixture
async def flooder(mesh: ProcessMesh) -> AsyncIterator[Flooder]:
    async for one in registered(mesh):
        yield one


async def registered(mesh: ProcessMesh) -> AsyncIterator[Flooder]:
    one = Flooder(mesh)
    async with BareAgent(
        one.role, mesh.registry.address, one.answer, features=["checkpoint", "record", "cancel"], max_tasks=2
    ) as agent:
        one.agent = agent
        await mesh.seen(agent.address)
        yield one


def grown(mesh: ProcessMesh, before: int) -> int:
    return rss(mesh) - before


def rss(mesh: ProcessMesh) -> int:
    size: int = psutil.Process(mesh.orchestrator.pid).memory_info().rss
    return size


def record(size: int) -> agent_pb2.CallRecord:
    """A record that a compression hardly makes smaller."""
    text = base64.b85encode(random.Random(size).randbytes(size))[:size].decode()
    return agent_pb2.CallRecord(kind=agent_pb2.RECORD_KIND_TOOL, target="t", request_json=text)


async def test_records_of_an_unknown_run_are_not_held(mesh: ProcessMesh, flooder: Flooder) -> None:
    handle = await mesh.client.submit("x", roles=[flooder.role])
    await eventually(flooder.assigned)
    before, content = rss(mesh), record(MB)
    for number in range(400):
        ref = common_pb2.TaskRef(task_id=f"never{number % 7}.1", run_id=f"never{number % 7}", attempt=1, epoch=1)
        flooder.agent.send(AgentFrame(task=ref, sequence=1 + number // 7, record=content))
        await asyncio.sleep(0)  # the agent answers heartbeats meanwhile
    flooder.agent.send(flooder.frame(1, result=agent_pb2.TaskResult(state=common_pb2.TASK_STATE_COMPLETED)))
    run = await handle.result(timeout=30)
    assert run.state == TaskState.COMPLETED
    assert grown(mesh, before) < 100 * MB


async def test_an_agent_that_outpaces_the_store_is_not_read(
    etcd: EtcdProcess, fresh_postgres: PostgresServer, tmp_path: Path
) -> None:
    """And once the store answers again, the run goes on, with the newest checkpoint."""
    mesh = ProcessMesh(tmp_path, etcd.address)
    await mesh.start(ARCHON_JOURNAL=fresh_postgres.dsn(fresh_postgres.create_database()))
    try:
        async for flooder in registered(mesh):
            handle = await mesh.client.submit("x", roles=[flooder.role])
            await eventually(flooder.assigned)
            before, data = rss(mesh), b"x" * MB
            fresh_postgres.freeze()
            for sequence in range(1, 401):
                flooder.agent.send(flooder.frame(sequence, checkpoint=session_pb2.Checkpoint(data=data)))
                await asyncio.sleep(0)  # the agent answers heartbeats meanwhile
            await until(lambda before=before: grown(mesh, before) > MAX_SESSION_BYTES / 2, within=20)  # type: ignore[misc]
            largest = 0
            for _ in range(12):
                await hold(0.25)
                largest = max(largest, grown(mesh, before))
            assert largest < GROWTH
            fresh_postgres.thaw()
            end = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_COMPLETED, output=[common_pb2.Part(text="done")])
            flooder.agent.send(flooder.frame(401, result=end))
            assert answer_text(await handle.result(timeout=60)) == "done"
            stored = sum([event.type == "checkpoint" async for event in mesh.client.watch(handle.run_id)])
            assert stored < 300, "of those that waited together, one is stored"
    finally:
        fresh_postgres.thaw()
        await mesh.stop()


async def test_a_run_whose_journal_is_too_large_fails(etcd: EtcdProcess, tmp_path: Path) -> None:
    mesh = ProcessMesh(tmp_path, etcd.address)
    await mesh.start(ARCHON_MAX_RUN_BYTES="20000000")
    try:
        honest = await mesh.agent("honest")
        await mesh.seen(honest.address)
        async for flooder in registered(mesh):
            handle = await mesh.client.submit("x", roles=[flooder.role])
            await eventually(flooder.assigned)
            content = record(MB)
            for sequence in range(1, 61):
                flooder.agent.send(flooder.frame(sequence, record=content))
                await asyncio.sleep(0)
            run = await handle.result(timeout=30)
            assert run.state == TaskState.FAILED
            error = status.from_failure(run.proto.failure)
            assert (type(error), error.reason) == (ResourceExhausted, "RUN_TOO_LARGE")
            assert "20,000,000" in error.message
            stored = [record async for record in mesh.client.records(handle.run_id)]
            assert 15 <= len(stored) <= 40
            assert (await mesh.client.submit("x", roles=["honest"], wait=10)).run.answers
    finally:
        await mesh.stop()


async def test_a_flood_of_small_frames_for_invented_tasks_is_not_held(mesh: ProcessMesh, flooder: Flooder) -> None:
    handle = await mesh.client.submit("x", roles=[flooder.role])
    await eventually(flooder.assigned)
    before = rss(mesh)
    end = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_COMPLETED)
    for number in range(200):
        frames = [
            AgentFrame(
                task=common_pb2.TaskRef(task_id=f"n{n}.1", run_id=f"n{n}", attempt=1, epoch=1), sequence=1, result=end
            )
            for n in range(number * 100, number * 100 + 100)
        ]
        flooder.agent.send_message(agent_service_pb2.SessionResponse(frames=frames))
    flooder.agent.send(flooder.frame(1, result=end))
    assert (await handle.result(timeout=30)).state == TaskState.COMPLETED
    assert grown(mesh, before) < 60 * MB
