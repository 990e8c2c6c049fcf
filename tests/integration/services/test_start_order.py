"""A service that starts before its PostgreSQL waits for it, and can be stopped meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.fixtures.postgres import PASSWORD, PostgresServer
from tests.fixtures.servers import stopped_postgres
from tests.fixtures.services import ServiceProcess
from tests.fixtures.waiting import eventually

__all__ = ["stopped_postgres"]

pytestmark = pytest.mark.liveness

NOWHERE = "127.0.0.1:1"


@pytest.fixture(params=["orchestrator", "memory"])
async def service(
    request: pytest.FixtureRequest, stopped_postgres: PostgresServer, tmp_path: Path
) -> AsyncIterator[ServiceProcess]:
    """A service whose database is down; not started."""
    await asyncio.to_thread(stopped_postgres.start)
    database = stopped_postgres.dsn(stopped_postgres.create_database())
    await asyncio.to_thread(stopped_postgres.stop)
    store = "ARCHON_JOURNAL" if request.param == "orchestrator" else "ARCHON_DB"
    environment = {store: database, "ARCHON_REGISTRY": NOWHERE, "ARCHON_MEMORY": ""}
    async with AsyncExitStack() as stack:
        process = ServiceProcess(f"archon_services.{request.param}", tmp_path, **environment)
        stack.push_async_callback(process.close)
        yield process


async def waits(service: ServiceProcess) -> None:
    """Returns when the process has logged that it waits."""

    async def logged() -> bool:
        return service.log.exists() and "waiting for the" in service.log.read_text()

    await eventually(logged, 15.0)


async def test_a_service_waits_for_its_database(service: ServiceProcess, stopped_postgres: PostgresServer) -> None:
    starting = asyncio.create_task(service.start())
    await waits(service)
    assert not starting.done()
    await asyncio.to_thread(stopped_postgres.start)
    await asyncio.wait_for(starting, 15)
    log = service.log.read_text()
    assert "Traceback" not in log
    assert PASSWORD not in log
    assert await service.stop() == 0


async def test_a_service_that_waits_ends_on_sigterm(service: ServiceProcess) -> None:
    starting = asyncio.create_task(service.start_or_exit())
    await waits(service)
    assert await asyncio.wait_for(service.stop(), 5) == 0
    assert await starting == 0
    log = service.log.read_text()
    assert "stopped before it served" in log
    assert "Traceback" not in log
