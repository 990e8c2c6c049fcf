"""The store over etcd: it reads all keys only if its view is not current."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress

import pytest

from archon.api.common.v1.common_pb2 import PROPAGATION_POLICY_TOOL_RESULTS, Edge
from archon.api.registry.v1.registry_pb2 import DependsOn, Registration
from archon_services.registry.store.etcd import EtcdStore
from archon_services.registry.store.etcd_client import EtcdClient
from archon_services.registry.store.view import RegistryView
from archon_services.testing import EtcdProcess
from tests.fixtures.waiting import Eventually

INSTANCES = 20


def make(number: int) -> Registration:
    registration = Registration(instance_id=f"i{number}", role=f"r{number}", version="1", address="host:1")
    registration.ttl.FromSeconds(10)
    upstream = "r0" if number else "x"
    registration.depends_on.append(DependsOn(role=upstream, policy=PROPAGATION_POLICY_TOOL_RESULTS))
    return registration


@pytest.fixture
def view() -> RegistryView:
    """The view of the store."""
    return RegistryView()


@pytest.fixture
async def store(etcd: EtcdProcess, prefix: str, view: RegistryView) -> AsyncIterator[EtcdStore]:
    async with EtcdStore(etcd.address, prefix=prefix, view=view) as store:
        await view.ready.wait()
        yield store


@pytest.fixture
async def other(etcd: EtcdProcess, prefix: str, store: EtcdStore) -> AsyncIterator[EtcdStore]:
    """A store of another registry with the same keys."""
    async with EtcdStore(etcd.address, prefix=prefix) as other:
        yield other


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch, store: EtcdStore) -> list[bytes]:
    """The prefixes that were read since the store was opened."""
    prefixes: list[bytes] = []
    read = EtcdClient.range

    async def counted(self: EtcdClient, prefix: bytes) -> object:
        prefixes.append(prefix)
        return await read(self, prefix)

    monkeypatch.setattr(EtcdClient, "range", counted)
    return prefixes


async def test_calls_with_a_current_view_do_not_read_all_keys(
    store: EtcdStore, view: RegistryView, ranges: list[bytes], eventually: Eventually
) -> None:
    for number in range(INSTANCES):
        registered = await store.register(make(number))

        async def is_current(revision: int = registered.registration.revision) -> bool:
            return view.state.revision >= revision

        await eventually(is_current, 60)
        await store.keep_alive([f"i{number}"])
        await store.register(make(number))
    state = await store.read()
    assert (len(state.instances), len(state.edges)) == (INSTANCES, INSTANCES)
    assert state.revision >= view.state.revision
    assert not ranges


@pytest.fixture
async def stale(store: EtcdStore, view: RegistryView, monkeypatch: pytest.MonkeyPatch, eventually: Eventually) -> None:
    """Registers i0, then the store's view stops following etcd."""
    await store.register(make(0))

    async def has_instance() -> bool:
        return "i0" in view.state.instances

    await eventually(has_instance, 60)
    monkeypatch.setattr(store._records, "revisions", lambda events: [])


@pytest.mark.usefixtures("stale")
async def test_stale_view_is_not_read(store: EtcdStore, other: EtcdStore, view: RegistryView) -> None:
    await other.deregister("i0")
    assert not (await store.read()).instances
    await other.register(make(1))
    assert set((await store.read()).instances) == {"i1"}, "as many keys as in the view, but others"
    await other.pin([Edge(upstream="r1", downstream="r2", policy=PROPAGATION_POLICY_TOOL_RESULTS)])
    assert len((await store.read()).pins) == 1
    assert set(view.state.instances) == {"i0"}


@pytest.mark.usefixtures("stale")
async def test_stale_view_does_not_close_a_cycle(store: EtcdStore, other: EtcdStore) -> None:
    await other.register(make(1))
    opposite = make(2)
    opposite.role, opposite.depends_on[0].role = "x", "r1"
    assert [refused.cycle for refused in (await store.register(opposite)).refused] == ["r1 -> x -> r0 -> r1"]


async def test_etcd_outlives_calls_that_are_cancelled(fresh_etcd: EtcdProcess, prefix: str) -> None:
    """An etcd before 3.5.5, such as the one of the package, crashes if a transaction that only reads is cancelled."""
    async with EtcdStore(fresh_etcd.address, prefix=prefix) as store:
        names = [(await store.register(make(number))).registration.instance_id for number in range(INSTANCES)]

        async def cancelled(call: Awaitable[object]) -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(random.uniform(0, 0.005)):
                    await call

        for _ in range(20):
            await asyncio.gather(
                *(cancelled(store.keep_alive(names)) for _ in range(20)),
                *(cancelled(store.keep_alive(names[:2])) for _ in range(20)),
                *(cancelled(store.leases(names)) for _ in range(5)),
                *(cancelled(store.read()) for _ in range(20)),
            )
            assert fresh_etcd.running, fresh_etcd.log_end()
        assert await store.keep_alive(names) == [10] * INSTANCES
