"""V14: the edges are acyclic at every revision of etcd, whatever several registries are asked at the same moment."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise, permutations

import grpc.aio
import networkx as nx
import pytest
from aetcd import rpc

from archon.errors import ArchonError, GraphCycle
from archon.registry import RegistrationHandle, RegistryClient
from archon_services.registry import registry_app
from archon_services.registry.store.etcd_client import Etcd, range_end
from archon_services.testing import EtcdProcess
from tests.fixtures.etcd_cluster import EtcdCluster
from tests.fixtures.registry import Make, settings

ROLES = "abcd"
"""So few that about every second edge closes a cycle."""

WRITERS = 8
STEPS = 40


@pytest.fixture(scope="module")
def cluster() -> Iterator[EtcdCluster]:
    with EtcdCluster() as cluster:
        yield cluster


@asynccontextmanager
async def two_registries(etcd: str, prefix: str) -> AsyncIterator[list[RegistryClient]]:
    async with AsyncExitStack() as stack:
        addresses = [
            await stack.enter_async_context(registry_app(settings(etcd=etcd, prefix=prefix))) for _ in range(2)
        ]
        yield [await stack.enter_async_context(RegistryClient(address)) for address in addresses]


async def write(dice: random.Random, clients: Sequence[RegistryClient], make: Make) -> int:
    """Registers, pins, unpins and leaves by chance; how often it was told that an edge would close a cycle."""
    held: list[RegistrationHandle] = []
    refused = 0
    for _ in range(STEPS):
        client, (one, other, third) = dice.choice(clients), dice.sample(ROLES, 3)
        try:
            match dice.choice(["register", "pin", "unpin", "unpin", "leave", "leave"]):
                case "register":
                    held.append(await client.register(make(one, other, third)))
                    refused += bool(held[-1].refused)
                case "pin":
                    await client.pin_edges([(one, other)])
                case "unpin":
                    await client.unpin_edges(permutations((one, other, third), 2))
                case "leave" if held:
                    await held.pop(dice.randrange(len(held))).close()
        except GraphCycle:
            refused += 1
        except ArchonError:  # etcd elects, or the others wrote first too often
            pass
    return refused


async def edges_by_revision(etcd: str, prefix: str) -> AsyncIterator[tuple[int, set[tuple[str, str]]]]:
    """Past the registries: every revision of etcd since its first, and the edges in it."""
    start = f"{prefix}/".encode()
    async with grpc.aio.insecure_channel(f"ipv4:{etcd}") as channel:
        stub = rpc.KVStub(channel)

        async def at(revision: int) -> rpc.RangeResponse:
            request = rpc.RangeRequest(key=start, range_end=range_end(start), revision=revision, keys_only=True)
            return await stub.Range(request, timeout=5, wait_for_ready=True)

        newest = await at(0)
        first = min(kv.create_revision for kv in newest.kvs)
        for revision in range(first, newest.header.revision + 1):
            names = [kv.key.removeprefix(start).decode().split("/") for kv in (await at(revision)).kvs]
            yield revision, {(name[1], name[2]) for name in names if name[0] in ("edges", "pins")}


async def check(etcd: str, prefix: str) -> None:
    graphs = [(revision, edges) async for revision, edges in edges_by_revision(etcd, prefix)]
    for revision, edges in graphs:
        graph: nx.DiGraph[str] = nx.DiGraph(edges)
        assert nx.is_directed_acyclic_graph(graph), f"at revision {revision}: {nx.find_cycle(graph)}"
    changes = sum(one != then for (_, one), (_, then) in pairwise(graphs))
    assert changes > 30, f"hardly anything happened: {changes} changes"


async def test_validator_14_edges_are_acyclic_at_every_revision(etcd: EtcdProcess, prefix: str, make: Make) -> None:
    async with two_registries(etcd.address, prefix) as clients:
        refused = await asyncio.gather(*(write(random.Random(n), clients, make) for n in range(WRITERS)))
    assert sum(refused) > WRITERS
    await check(etcd.address, prefix)


async def test_without_the_condition_on_the_graph_cycles_would_be_found(
    etcd: EtcdProcess, prefix: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test of the test. Two registries must get in each other's way for it: they are given ten times as long."""
    whole = Etcd.txn
    monkeypatch.setattr(Etcd, "txn", lambda self, compare, success: whole(self, [], success))
    with pytest.raises(AssertionError, match="at revision"):
        for _ in range(10):
            async with two_registries(etcd.address, prefix) as clients:
                await asyncio.gather(*(write(random.Random(), clients, make) for _ in range(WRITERS)))
            await check(etcd.address, prefix)


async def test_validator_14_edges_are_acyclic_while_members_of_etcd_die(
    cluster: EtcdCluster, prefix: str, make: Make
) -> None:
    async with two_registries(cluster.address, prefix) as clients:
        writing = asyncio.gather(*(write(random.Random(n), clients, make) for n in range(WRITERS)))
        for _ in range(2):
            leader = await asyncio.to_thread(cluster.leader)
            await asyncio.to_thread(leader.kill)
            await asyncio.to_thread(cluster.leader)
            await asyncio.to_thread(leader.start)
        refused = await writing
    assert sum(refused) > WRITERS
    await check(cluster.address, prefix)
