"""Two registries behind one target: a client continues while the network to one of them drops all packets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from archon.errors import DeadlineExceeded, Unavailable
from archon.registry import RegistryClient
from archon_services.registry import registry_app
from archon_services.testing import EtcdProcess
from tests.fixtures.registry import Make, settings
from tests.fixtures.valve import Valve
from tests.fixtures.waiting import Eventually

pytestmark = pytest.mark.liveness

NOTICED_WITHIN = 4.5
"""Seconds: the keepalive timeout between services, and a margin."""

WITHIN = 30.0
"""Seconds. A registry that can send but not receive accepts connections again at once: calls may reach it
repeatedly."""


@pytest.fixture
async def valves(etcd: EtcdProcess, prefix: str) -> AsyncIterator[list[Valve]]:
    """A valve in front of each registry."""
    async with AsyncExitStack() as stack:
        valves = []
        for _ in range(2):
            address = await stack.enter_async_context(registry_app(settings(etcd=etcd.address, prefix=prefix)))
            valve = await stack.enter_async_context(Valve())
            valve.server_port = int(address.rpartition(":")[2])
            valves.append(valve)
        yield valves


@pytest.mark.search
@pytest.mark.parametrize(
    ("number", "ways"),
    [(0, ("up",)), (1, ("up",)), (0, ("down",))],
)
async def test_client_of_two_registries_continues_when_one_is_cut_off(
    valves: list[Valve], number: int, ways: tuple[str, ...], make: Make, eventually: Eventually
) -> None:
    target = "ipv4:" + ",".join(f"127.0.0.1:{valve.port}" for valve in valves)
    async with RegistryClient(target) as client:
        handle = await client.register(make("a", ttl=2.0))
        valves[number].shut(*ways)
        try:
            other = await client.register(make("b", ttl=2.0), timeout=WITHIN)
            assert other.registered.is_set()

            async def both_registered() -> bool:
                try:
                    instances = await client.list_instances(timeout=NOTICED_WITHIN)
                except (DeadlineExceeded, Unavailable):
                    return False
                return {instance.role for instance in instances} == {"a", "b"} and handle.registered.is_set()

            await eventually(both_registered, WITHIN)
        finally:
            valves[number].open()
