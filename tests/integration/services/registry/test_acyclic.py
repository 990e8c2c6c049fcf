"""The edges are acyclic at every revision of etcd, whatever several registries write concurrently."""

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
from archon_services.registry.store.etcd_client import EtcdClient, range_end
from archon_services.testing import EtcdProcess
from tests.fixtures.etcd_cluster import EtcdCluster
from tests.fixtures.registry import Make, settings

ROLES = "abcd"
"""Few enough that about every second edge closes a cycle."""

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
    """Registers, pins, unpins and deregisters at random; returns how many edges were refused for closing a cycle."""
    handles: list[RegistrationHandle] = []
    refused = 0
    for _ in range(STEPS):
        client, (first, second, third) = dice.choice(clients), dice.sample(ROLES, 3)
        try:
            match dice.choice(["register", "pin", "unpin", "unpin", "leave", "leave"]):
                case "register":
                    handles.append(await client.register(make(first, second, third)))
                    refused += bool(handles[-1].refused)
                case "pin":
                    await client.pin_edges([(first, second)])
                case "unpin":
                    await client.unpin_edges(permutations((first, second, third), 2))
                case "leave" if handles:
                    await handles.pop(dice.randrange(len(handles))).close()
        except GraphCycle:
            refused += 1
        except ArchonError:  # etcd elects a leader, or there were too many concurrent writes
            pass
    return refused


async def edges_by_revision(etcd: str, prefix: str) -> AsyncIterator[tuple[int, set[tuple[str, str]]]]:
    """Reads etcd directly: every revision since the first, with its edges."""
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


async def check_acyclic(etcd: str, prefix: str) -> list[set[tuple[str, str]]]:
    """Asserts that the edges of every revision are acyclic, and returns them."""
    graphs = []
    async for revision, edges in edges_by_revision(etcd, prefix):
        graph: nx.DiGraph[str] = nx.DiGraph(edges)
        assert nx.is_directed_acyclic_graph(graph), f"at revision {revision}: {nx.find_cycle(graph)}"
        graphs.append(edges)
    return graphs


async def check(etcd: str, prefix: str) -> None:
    graphs = await check_acyclic(etcd, prefix)
    changes = sum(before != after for before, after in pairwise(graphs))
    assert changes > 30, f"only {changes} changes"


@pytest.mark.search
async def test_validator_14_edges_are_acyclic_at_every_revision(etcd: EtcdProcess, prefix: str, make: Make) -> None:
    async with two_registries(etcd.address, prefix) as clients:
        refused = await asyncio.gather(*(write(random.Random(n), clients, make) for n in range(WRITERS)))
    assert sum(refused) > WRITERS
    await check(etcd.address, prefix)


@pytest.mark.search
async def test_without_the_graph_condition_cycles_would_be_written(
    etcd: EtcdProcess, prefix: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checks the test itself. The two registries must conflict for it, so it gets ten rounds."""
    txn = EtcdClient.txn
    monkeypatch.setattr(EtcdClient, "txn", lambda self, compare, success: txn(self, [], success))
    with pytest.raises(AssertionError, match="at revision"):
        for _ in range(10):
            async with two_registries(etcd.address, prefix) as clients:
                await asyncio.gather(*(write(random.Random(), clients, make) for _ in range(WRITERS)))
            await check_acyclic(etcd.address, prefix)


@pytest.mark.search
async def test_validator_14_edges_are_acyclic_while_etcd_members_fail(
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
