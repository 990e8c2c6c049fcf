"""Rows 11, 12 and 16: members of etcd fail, and the journal's disk is full."""

from __future__ import annotations

import asyncio

import pytest

from archon.errors import ArchonError, ResourceExhausted
from tests.failures.arena import ROLES, Arena, hold
from tests.fixtures.etcd_cluster import EtcdCluster
from tests.fixtures.small_disk import SmallDisk
from tests.fixtures.waiting import eventually

pytestmark = pytest.mark.slow


@pytest.mark.liveness
async def test_leader_of_etcd_killed(clustered_arena: tuple[Arena, EtcdCluster]) -> None:
    arena, cluster = clustered_arena
    leader = await asyncio.to_thread(cluster.leader)
    async with arena.row("etcd: the leader of three killed, back after 5 s", 11) as strike:
        strike.begins()
        leader.kill()
        await hold(5)
        await asyncio.to_thread(leader.start)
        strike.ends()


@pytest.mark.liveness
async def test_leader_of_etcd_frozen(clustered_arena: tuple[Arena, EtcdCluster]) -> None:
    arena, cluster = clustered_arena
    leader = await asyncio.to_thread(cluster.leader)
    async with arena.row("etcd: the leader of three frozen for 6 s", 11.5) as strike:
        strike.begins()
        leader.freeze()
        await hold(6)
        leader.thaw()
        strike.ends()


@pytest.mark.liveness
async def test_quorum_of_etcd_lost(clustered_arena: tuple[Arena, EtcdCluster]) -> None:
    arena, cluster = clustered_arena
    down = cluster.members[:2]
    async with arena.row("etcd: two of three killed, back after 10 s", 12) as strike:
        strike.begins()
        for member in down:
            member.kill()
        await hold(10)
        await asyncio.to_thread(cluster.start)
        strike.ends()


@pytest.mark.liveness
async def test_journals_disk_full(small_disk_arena: Arena, small_disk: SmallDisk) -> None:
    arena = small_disk_arena
    async with arena.row("PostgreSQL: the journal's disk full for 5 s", 16) as strike:
        strike.begins()

        async def refused() -> bool:
            """Returns whether a submit is refused. The first may still fit into free space of the tables' files."""
            small_disk.fill()
            try:
                await arena.client.submit("x" * 100_000, roles=list(ROLES))
            except ResourceExhausted as error:
                return bool(error.retry_delay)
            except ArchonError:
                pass
            return False

        await eventually(refused, 20)
        await hold(5)
        small_disk.make_room()
        strike.ends()
