"""A mesh whose journal is in PostgreSQL: runs survive the death of the orchestrator and of the database."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from archon.client import answer_text
from archon.errors import RequestIdReused
from archon.types import TaskState
from archon_services.testing import EtcdProcess
from tests.fixtures.mesh import ProcessMesh
from tests.fixtures.postgres import PASSWORD, PostgresServer
from tests.fixtures.waiting import hold
from tests.integration.services.orchestrator.test_outages import WHOLE, begun, three

pytestmark = pytest.mark.slow


async def started(etcd: EtcdProcess, home: Path, journal: str, stack: AsyncExitStack) -> ProcessMesh:
    mesh = ProcessMesh(home, etcd.address)
    await mesh.start(ARCHON_JOURNAL=journal)
    stack.push_async_callback(mesh.stop)
    return mesh


async def test_a_killed_orchestrator_resumes_its_runs(etcd: EtcdProcess, tmp_path: Path, postgres_dsn: str) -> None:
    async with AsyncExitStack() as stack:
        mesh = await started(etcd, tmp_path, postgres_dsn, stack)
        gate = await three(mesh)
        gate.clear()
        handle = await mesh.client.submit("x", request_id="q")
        await begun(mesh, "designer")
        await mesh.orchestrator.kill()
        await mesh.orchestrator.start()
        gate.set()
        run = await handle.result(timeout=15)
        assert run.state == TaskState.COMPLETED
        assert answer_text(run) == WHOLE
        assert mesh.executions() == [("requirements", 1), ("designer", 1), ("implementer", 1)]
        assert (await mesh.client.submit("x", request_id="q")).run_id == handle.run_id
        with pytest.raises(RequestIdReused):
            await mesh.client.submit("y", request_id="q")
        events = [event.seq async for event in handle.events() if event.seq]
        assert events == list(range(1, len(events) + 1))
        assert await mesh.orchestrator.stop() == 0
        for secret in (PASSWORD, "s3cret"):
            assert secret not in mesh.orchestrator.log.read_text()


@pytest.mark.search
@pytest.mark.parametrize("how", ["killed", "frozen"])
async def test_runs_wait_for_the_database_and_execute_tasks_once(
    etcd: EtcdProcess, tmp_path: Path, fresh_postgres: PostgresServer, how: str
) -> None:
    async with AsyncExitStack() as stack:
        mesh = await started(etcd, tmp_path, fresh_postgres.dsn(), stack)
        gate = await three(mesh)
        gate.clear()
        handles = [await mesh.client.submit(f"{n}") for n in range(4)]
        await begun(mesh, "designer")
        if how == "killed":
            await asyncio.to_thread(fresh_postgres.kill)
        else:
            fresh_postgres.freeze()
        gate.set()
        await hold(3.0)
        if how == "killed":
            await asyncio.to_thread(fresh_postgres.start)
        else:
            fresh_postgres.thaw()
        for handle in handles:
            run = await handle.result(timeout=15)
            assert run.state == TaskState.COMPLETED
            assert [task.attempt for task in run.tasks] == [1, 1, 1]
        assert len(mesh.executions()) == 12, "no task was executed twice"
        assert (await mesh.client.submit("after", wait=20)).run.state == TaskState.COMPLETED
