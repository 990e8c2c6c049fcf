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
from tests.upgrade.release import NEXT_REVISION, following, present, previous
from tests.upgrade.rolling_mesh import ROLES, rolling_mesh

__all__ = ["empty_postgres_dsn"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("ARCHON_UPGRADE" not in os.environ, reason="takes more than a minute: make test-upgrade"),
]

NEWER_RUNS: Final = "were written by a newer release of Archon"


async def revision(dsn: str) -> str:
    """Returns the revision of the journal's tables."""
    connection = await asyncpg.connect(dsn)
    try:
        return str(await connection.fetchval(f"SELECT version_num FROM {SCHEMA.name}.schema_version"))
    finally:
        await connection.close()


async def test_durability_7_a_mesh_under_load_is_upgraded(
    etcd: EtcdProcess, empty_postgres_dsn: str, tmp_path: Path
) -> None:
    old, new, future = previous(tmp_path / "previous"), present(), following(tmp_path / "following")
    home = tmp_path / "home"
    home.mkdir()
    async with rolling_mesh(home, etcd.address, empty_postgres_dsn, old) as mesh:
        load = await mesh.start_load("old-client", old)
        await mesh.progress(load)

        # A client and an agent may be newer than the services.
        early = await mesh.start_load("early-client", new)
        surplus = await mesh.start_agent("designer", new)
        await mesh.progress(early, 5)
        await surplus.stop()

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
        await load.process.stop()

        await mesh.first.upgrade(future)
        assert await revision(empty_postgres_dsn) == NEXT_REVISION
        await mesh.progress(early)
        await mesh.first.upgrade(new)
        await until(lambda: NEWER_RUNS in mesh.first.log.read_text() + mesh.second.log.read_text(), within=30.0)
        await mesh.progress(early)
        await mesh.first.upgrade(future)
        await mesh.second.upgrade(future)
        await mesh.progress(early)
        await early.process.stop()

        runs = {load.name: load.check() for load in mesh.loads}
        assert all(runs.values()), runs
        assert mesh.errors() == []
