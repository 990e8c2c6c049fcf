"""Outages: etcd killed, wiped or frozen, the registry restarted. Errors are typed and timely, and everything
recovers."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing

import pytest

from archon.errors import ArchonError, DeadlineExceeded, Unavailable
from archon.registry import RegistryClient
from archon_services.registry import registry_app
from archon_services.registry.store.etcd_client import EtcdClient
from archon_services.testing import EtcdProcess
from tests.fixtures.registry import Make, settings
from tests.fixtures.waiting import Eventually, until


@pytest.fixture
async def client(fresh_etcd: EtcdProcess) -> AsyncIterator[RegistryClient]:
    async with registry_app(settings(etcd=fresh_etcd.address)) as address, RegistryClient(address) as client:
        yield client


async def in_thread(blocking: Callable[[], object]) -> None:
    await asyncio.to_thread(blocking)


async def test_watch_continues_after_a_restart_of_etcd(
    fresh_etcd: EtcdProcess, client: RegistryClient, make: Make
) -> None:
    first = await client.register(make("a", ttl=30.0))
    async with aclosing(client.watch()) as changes:
        assert (await anext(changes)).snapshot
        await in_thread(fresh_etcd.restart)
        async with asyncio.timeout(60):
            second = await client.register(make("b", "a"))
            change = await anext(changes)
    assert not change.snapshot
    assert [instance.instance_id for instance in change.instances] == [second.instance_id]
    assert first.registered.is_set()


@pytest.mark.slow
async def test_changes_during_an_outage_arrive_as_a_difference(
    fresh_etcd: EtcdProcess, client: RegistryClient, make: Make
) -> None:
    async with RegistryClient(client.target) as other:
        expiring = await other.register(make("a", ttl=1.0))
        async with aclosing(client.watch()) as changes:
            assert (await anext(changes)).snapshot
            expiring.lost = expiring.lapse = lambda: None  # type: ignore[method-assign]
            await other._keepalive.close()
            await in_thread(fresh_etcd.restart)
            async with asyncio.timeout(60):
                change = await anext(changes)
        assert change.removed == (expiring.instance_id,)


@pytest.mark.slow
async def test_client_registers_again_after_etcd_lost_its_data(
    fresh_etcd: EtcdProcess, client: RegistryClient, make: Make, eventually: Eventually
) -> None:
    handle = await client.register(make("b", "a", ttl=1.0))
    for number in range(5):
        await client.pin_edges([("x", f"y{number}")])
    async with aclosing(client.watch()) as changes:
        before = await anext(changes)
        await in_thread(fresh_etcd.wipe)

        async def back() -> bool:
            try:
                return [instance.instance_id for instance in await client.list_instances()] == [handle.instance_id]
            except Unavailable:
                return False

        await eventually(back, 60)
        async with asyncio.timeout(60):
            change = await anext(changes)
            while not change.instances:
                change = await anext(changes)
    assert before.revision > change.revision, "an empty etcd counts revisions from the start"
    await asyncio.wait_for(handle.registered.wait(), 60)
    graph = await client.get_graph()
    assert [(edge.upstream, edge.downstream) for edge in graph.edges] == [("a", "b")]


@pytest.mark.slow
async def test_frozen_etcd_is_a_typed_error_within_its_time_and_heals(
    fresh_etcd: EtcdProcess, client: RegistryClient, make: Make, eventually: Eventually
) -> None:
    registration = make("r", ttl=60.0)
    await client.register(registration)
    fresh_etcd.freeze()
    calls: list[Awaitable[object]] = [
        client.list_instances(),
        client.resolve("r"),
        client.get_graph(),
        client.pin_edges([("a", "b")]),
        client.unpin_edges([("a", "b")]),
    ]
    try:
        async with asyncio.timeout(30):
            results = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(result, Unavailable | DeadlineExceeded) for result in results), results
    finally:
        fresh_etcd.thaw()

    async def healed() -> bool:
        try:
            return len(await client.list_instances()) == 1
        except ArchonError:
            return False

    await eventually(healed, 60)


@pytest.mark.slow
async def test_stopped_etcd_is_unavailable_and_clients_wait_for_it(
    fresh_etcd: EtcdProcess, client: RegistryClient, make: Make
) -> None:
    registered = await client.register(make("a", ttl=1.0))
    await in_thread(fresh_etcd.kill)
    with pytest.raises(Unavailable):
        await client.get_graph()
    late = await client.register(make("b"), timeout=0.2)
    assert not late.registered.is_set()
    await until(lambda: not registered.registered.is_set(), 60)  # the lease ran out without a renewal
    await in_thread(fresh_etcd.start)
    async with asyncio.timeout(60):
        await late.registered.wait()
        await registered.registered.wait()
    assert {instance.role for instance in await client.list_instances()} == {"a", "b"}


async def test_clients_continue_after_a_restart_of_the_registry(
    etcd: EtcdProcess, prefix: str, make: Make, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    shared = settings(etcd=etcd.address, prefix=prefix)
    async with registry_app(shared) as address:
        client = RegistryClient(address)
        handle = await client.register(make("a", ttl=1.0))
        changes = client.watch()
        await anext(changes)
    again = shared.model_copy(update={"port": int(address.rpartition(":")[2])})
    reader = EtcdClient([etcd.address])

    async def expired() -> bool:
        return not (await reader.range(f"{prefix}/instances/".encode())).kvs

    await eventually(expired, 60)
    await reader.close()
    async with registry_app(again), aclosing(changes), asyncio.timeout(60):
        change = await anext(changes)
        while not any(instance.instance_id == handle.instance_id for instance in change.instances):
            change = await anext(changes)
        await handle.registered.wait()
        await client.close()
        assert handle.registered.is_set() is False
    gc.collect()
    assert not [record for record in caplog.records if record.name == "asyncio"], "no task is left"
