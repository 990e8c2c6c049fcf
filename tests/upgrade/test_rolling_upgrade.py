"""A mesh is upgraded process by process from the previous release to this one, and to a next one and back, under load."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import asyncpg
import pytest

from archon_services.orchestrator.journal.postgres.schema import SCHEMA
from archon_services.testing import EtcdProcess
from tests.fixtures.servers import empty_postgres_dsn
from tests.fixtures.waiting import until
from tests.upgrade.release import NEXT_REVISION, Release, following, present, previous
from tests.upgrade.rolling_mesh import ROLES, RollingMesh, rolling_mesh

__all__ = ["empty_postgres_dsn"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("ARCHON_UPGRADE" not in os.environ, reason="takes minutes: make test-upgrade"),
]

NEWER_RUNS: Final = "were written by a newer release of Archon"


@pytest.fixture
def old(tmp_path: Path) -> Release:
    return previous(tmp_path / "previous")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


async def revision(dsn: str) -> str:
    """Returns the revision of the journal's tables."""
    connection = await asyncpg.connect(dsn)
    try:
        return str(await connection.fetchval(f"SELECT version_num FROM {SCHEMA.name}.schema_version"))
    finally:
        await connection.close()


async def check(mesh: RollingMesh) -> None:
    """Ends the loads, and checks their runs and all logs."""
    for load in mesh.loads:
        await load.process.stop()
        assert load.check(), f"{load.name} has submitted nothing"
    assert mesh.errors() == []


async def test_durability_7_a_mesh_under_load_is_upgraded_and_taken_back(
    etcd: EtcdProcess, empty_postgres_dsn: str, tmp_path: Path, old: Release, home: Path
) -> None:
    new, future = present(), following(tmp_path / "following")
    async with rolling_mesh(home, etcd.address, empty_postgres_dsn, old) as mesh:
        load = await mesh.start_load("old-client", old)
        await mesh.progress(load)
        await mesh.registry.upgrade(new)
        await mesh.progress(load)
        await mesh.memory.upgrade(new)
        await mesh.progress(load)
        assert await revision(empty_postgres_dsn) < SCHEMA.head
        await mesh.first.upgrade(new)
        assert await revision(empty_postgres_dsn) == SCHEMA.head
        await mesh.progress(load, 5)
        mesh.first.kill()  # its runs wait for it: the other replica, of the previous release, could not fold them
        await mesh.progress(load)
        await mesh.first.start(new)
        await mesh.progress(load)
        await mesh.second.upgrade(new)
        await mesh.progress(load)
        for role in ROLES:
            await mesh.upgrade_agent(role, new)
            await mesh.progress(load)
        newer = await mesh.start_load("new-client", new)
        await load.process.stop()

        await mesh.first.upgrade(future)
        assert await revision(empty_postgres_dsn) == NEXT_REVISION
        await mesh.progress(newer)
        await mesh.first.upgrade(new)
        await until(lambda: NEWER_RUNS in mesh.first.log.read_text() + mesh.second.log.read_text(), within=30.0)
        await mesh.progress(newer)
        await mesh.first.upgrade(future)
        await mesh.second.upgrade(future)
        await mesh.progress(newer)
        await check(mesh)


async def test_a_mesh_under_load_is_upgraded_from_its_clients_on(
    etcd: EtcdProcess, empty_postgres_dsn: str, old: Release, home: Path
) -> None:
    new = present()
    async with rolling_mesh(home, etcd.address, empty_postgres_dsn, old) as mesh:
        load = await mesh.start_load("new-client", new)
        await mesh.progress(load)
        for role in reversed(list(ROLES)):
            await mesh.upgrade_agent(role, new)
            await mesh.progress(load)
        for orchestrator in (mesh.first, mesh.second):
            await orchestrator.upgrade(new)
            await mesh.progress(load)
        await mesh.memory.upgrade(new)
        await mesh.progress(load)
        await mesh.registry.upgrade(new)
        await mesh.progress(load)
        await check(mesh)
