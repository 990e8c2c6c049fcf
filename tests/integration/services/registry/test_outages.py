"""etcd killed, wiped, frozen; the registry restarted: typed errors within their time, and everything heals by
itself."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing

import pytest

from archon.errors import ArchonError, DeadlineExceeded, Unavailable
from archon.registry import RegistryClient
from archon_services.registry import registry_app
from archon_services.testing import EtcdProcess
from tests.integration.services.registry.conftest import Eventually, Make, settings


@pytest.fixture
async def client(fresh_etcd: EtcdProcess) -> AsyncIterator[RegistryClient]:
    async with registry_app(settings(etcd=fresh_etcd.address)) as address, RegistryClient(address) as client:
        yield client


async def in_thread(blocking: Callable[[], object]) -> None:
    await asyncio.to_thread(blocking)


async def test_a_watch_goes_on_after_etcd_was_restarted(
    fresh_etcd: EtcdProcess, client: RegistryClient, make: Make
) -> None:
    first = await client.register(make("a", ttl=30.0))
    async with aclosing(client.watch()) as changes:
        assert (await anext(changes)).snapshot
        await in_thread(fresh_etcd.restart)
        async with asyncio.timeout(10):
            second = await client.register(make("b", "a"))
            change = await anext(changes)
    assert not change.snapshot
    assert [one.instance_id for one in change.instances] == [second.instance_id]
    assert first.registered.is_set()


async def test_what_happened_while_the_registry_did_not_see_is_told_as_a_difference(
    fresh_etcd: EtcdProcess, client: RegistryClient, make: Make
) -> None:
    """D27."""
    async with RegistryClient(client.target) as mortal:
        gone = await mortal.register(make("a", ttl=1.0))
        async with aclosing(client.watch()) as changes:
            assert (await anext(changes)).snapshot
            gone.lost = gone.lapse = lambda: None  # type: ignore[method-assign]
            await mortal._keepalive.close()
            await in_thread(fresh_etcd.restart)
            async with asyncio.timeout(10):
                change = await anext(changes)
        assert change.removed == (gone.instance_id,)


async def test_a_handle_registers_again_after_etcd_lost_everything(
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
                return [one.instance_id for one in await client.list_instances()] == [handle.instance_id]
            except Unavailable:
                return False

        await eventually(back, 10.0)
        async with asyncio.timeout(10):
            change = await anext(changes)
            while not change.instances:
                change = await anext(changes)
    assert before.revision > change.revision, "an empty etcd begins to count anew"
    await asyncio.wait_for(handle.registered.wait(), 5)
    graph = await client.get_graph()
    assert [(edge.upstream, edge.downstream) for edge in graph.edges] == [("a", "b")]


async def test_a_frozen_etcd_is_a_typed_answer_within_six_seconds_and_heals(
    fresh_etcd: EtcdProcess, client: RegistryClient, make: Make
) -> None:
    registration = make("r", ttl=60.0)
    await client.register(registration)
    fresh_etcd.freeze()
    began = time.monotonic()
    calls: list[Awaitable[object]] = [
        client.list_instances(),
        client.resolve("r"),
        client.get_graph(),
        client.pin_edges([("a", "b")]),
        client.unpin_edges([("a", "b")]),
    ]
    try:
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert time.monotonic() - began < 6.5
        assert all(isinstance(result, Unavailable | DeadlineExceeded) for result in results), results
    finally:
        fresh_etcd.thaw()
    async with asyncio.timeout(5):
        while True:
            try:
                assert len(await client.list_instances()) == 1
                break
            except ArchonError:
                await asyncio.sleep(0.1)


async def test_etcd_away_is_unavailable_at_once_and_handles_wait_for_it(
    fresh_etcd: EtcdProcess, client: RegistryClient, make: Make
) -> None:
    held = await client.register(make("a", ttl=1.0))
    await in_thread(fresh_etcd.kill)
    with pytest.raises(Unavailable):
        await client.get_graph()
    late = await client.register(make("b"), timeout=0.2)
    assert not late.registered.is_set()
    await asyncio.sleep(1.5)
    assert not held.registered.is_set(), "no renewal was answered for a whole lease"
    await in_thread(fresh_etcd.start)
    async with asyncio.timeout(10):
        await late.registered.wait()
        await held.registered.wait()
    assert {one.role for one in await client.list_instances()} == {"a", "b"}


async def test_clients_go_on_after_the_registry_was_restarted(
    etcd: EtcdProcess, prefix: str, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    shared = settings(etcd=etcd.address, prefix=prefix)
    async with registry_app(shared) as address:
        client = RegistryClient(address)
        handle = await client.register(make("a", ttl=1.0))
        changes = client.watch()
        await anext(changes)
    again = shared.model_copy(update={"port": int(address.rpartition(":")[2])})
    await asyncio.sleep(1.7)
    async with registry_app(again), aclosing(changes), asyncio.timeout(10):
        change = await anext(changes)
        while not any(one.instance_id == handle.instance_id for one in change.instances):
            change = await anext(changes)
        await handle.registered.wait()
        await client.close()
        assert handle.registered.is_set() is False
    gc.collect()
    assert not [record for record in caplog.records if record.name == "asyncio"], "no task was left behind"
