"""The store in memory: what a renewal costs, and when leases expire."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from archon.api.registry.v1.registry_pb2 import DependsOn, Registration
from archon_services.registry.domain import edges
from archon_services.registry.domain.state import State
from archon_services.registry.store import memory
from archon_services.registry.store.memory import MemoryStore
from tests.fixtures.virtual_time import VirtualTime

INSTANCES = 50


def make(number: int, *upstreams: str, ttl: int = 10) -> Registration:
    registration = Registration(instance_id=f"i{number}", role=f"r{number % 5}", version="1.2", address="host:1")
    registration.depends_on.extend(DependsOn(role=upstream, policy=1) for upstream in upstreams)  # type: ignore[arg-type]
    registration.ttl.FromSeconds(ttl)
    return registration


class CountingDict(dict[str, float]):
    """Counts how often all of it is visited."""

    visits = 0

    def items(self) -> Any:
        self.visits += 1
        return super().items()

    def values(self) -> Any:
        self.visits += 1
        return super().values()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> VirtualTime:
    clock = VirtualTime()
    monkeypatch.setattr(memory, "time", clock)
    return clock


@pytest.fixture
async def store(clock: VirtualTime) -> AsyncIterator[MemoryStore]:
    """A store with many instances, some of which depend on others."""
    async with MemoryStore() as store:
        for number in range(INSTANCES):
            await store.register(make(number, *(["r0"] if number % 5 else [])))
        yield store


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch, store: MemoryStore) -> list[str]:
    """The instances that were planned since the store was filled."""
    planned: list[str] = []
    plan = edges.plan_registration

    def counted(state: State, registration: Registration, host: str = "") -> tuple[Mapping[str, Any], list[Any]]:
        planned.append(registration.instance_id)
        return plan(state, registration, host)

    monkeypatch.setattr(memory, "plan_registration", counted)
    return planned


async def test_renewals_without_changes_visit_no_other_instance(store: MemoryStore, plans: list[str]) -> None:
    leases = store._expires_at = CountingDict(store._expires_at)
    for number in range(INSTANCES):
        assert await store.keep_alive([f"i{number}"]) == [10]
        await store.register(make(number, *(["r0"] if number % 5 else [])))
    assert not plans
    assert not leases.visits


async def test_renewals_after_other_registrations_are_not_planned(store: MemoryStore, plans: list[str]) -> None:
    await store.register(make(INSTANCES))
    await store.keep_alive([f"i{number}" for number in range(INSTANCES)])
    assert plans == [f"i{INSTANCES}"]


async def test_renewal_is_planned_when_a_refused_edge_is_acceptable(store: MemoryStore, plans: list[str]) -> None:
    other, last = make(60, "last", ttl=60), make(61, "r0", ttl=60)
    other.role, other.instance_id, last.role, last.instance_id = "r0", "other", "last", "last"
    await store.register(other)
    for _ in range(2):
        assert [refused.cycle for refused in (await store.register(last)).refused] == ["r0 -> last -> r0"]
    await store.deregister("other")
    await store.keep_alive(["last"])
    await store.keep_alive(["last"])
    assert plans == ["other", "last", "last"]
    assert ("r0", "last") in set((await store.read()).pairs())


async def test_lease_expires_at_its_end_and_not_if_renewed(store: MemoryStore, clock: VirtualTime) -> None:
    clock.now += 6
    await store.keep_alive([f"i{number}" for number in range(1, INSTANCES)])
    clock.now += 3.9
    assert len((await store.read()).instances) == INSTANCES
    clock.now += 0.1
    assert set((await store.read()).instances) == {f"i{number}" for number in range(1, INSTANCES)}
    clock.now += 6
    assert await store.keep_alive(["i1"]) == [0]
    assert not (await store.read()).instances


async def test_shorter_lease_expires_before_the_others(store: MemoryStore, clock: VirtualTime) -> None:
    await store.register(make(0, ttl=1))
    clock.now += 1
    assert await store.keep_alive(["i0", "i1"]) == [0, 10]


async def test_leases_that_expire_together_are_one_change(store: MemoryStore, clock: VirtualTime) -> None:
    revision = (await store.read()).revision
    clock.now += 10
    state = await store.read()
    assert (state.revision, state.instances, state.edges) == (revision + 1, {}, {})
