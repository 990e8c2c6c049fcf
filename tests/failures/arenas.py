"""Fixtures of the failure table: arenas, and the servers and disks that a row may harm."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archon_services.testing import EtcdProcess
from tests.failures.arena import Arena
from tests.fixtures.etcd_cluster import EtcdCluster
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.small_disk import SmallDisk


@pytest.fixture
async def arena(etcd: EtcdProcess, postgres_dsn: str, tmp_path: Path) -> AsyncIterator[Arena]:
    """An arena on the PostgreSQL that all tests share."""
    async with Arena(tmp_path, etcd.address, postgres_dsn).open() as arena:
        yield arena


@pytest.fixture
async def own_store_arena(
    etcd: EtcdProcess, fresh_postgres: PostgresServer, tmp_path: Path
) -> AsyncIterator[tuple[Arena, PostgresServer]]:
    """An arena on a PostgreSQL that the test may kill and freeze."""
    async with Arena(tmp_path, etcd.address, fresh_postgres.dsn(fresh_postgres.create_database())).open() as arena:
        try:
            yield arena, fresh_postgres
        finally:
            fresh_postgres.thaw()


@pytest.fixture
async def valved_arena(etcd: EtcdProcess, postgres_dsn: str, tmp_path: Path) -> AsyncIterator[Arena]:
    """An arena with a valve before each agent."""
    async with Arena(tmp_path, etcd.address, postgres_dsn).open(valves=True) as arena:
        try:
            yield arena
        finally:
            for valve in arena.valves:
                valve.open()


@pytest.fixture
async def jumping_arena(etcd: EtcdProcess, postgres_dsn: str, tmp_path: Path) -> AsyncIterator[Arena]:
    """An arena whose first orchestrator's clock jumps on signals."""
    async with Arena(tmp_path, etcd.address, postgres_dsn).open(jumping=True) as arena:
        yield arena


@pytest.fixture
async def clustered_arena(postgres_dsn: str, tmp_path: Path) -> AsyncIterator[tuple[Arena, EtcdCluster]]:
    """An arena with its registry on an etcd of three members, which the test may kill and freeze."""
    with EtcdCluster() as cluster:
        async with Arena(tmp_path, cluster.address, postgres_dsn).open() as arena:
            yield arena, cluster


@pytest.fixture
async def small_disk_arena(etcd: EtcdProcess, small_disk: SmallDisk, tmp_path: Path) -> AsyncIterator[Arena]:
    """An arena with its journal on a separate disk that the test may fill."""
    with PostgresServer() as server:
        async with Arena(tmp_path, etcd.address, small_disk.database(server)).open() as arena:
            try:
                yield arena
            finally:
                small_disk.make_room()
