"""The instances that `archon agents` lists, from a registry in this process."""

from __future__ import annotations

from dataclasses import replace

import pytest

from archon.registry import Registration, RegistryClient
from archon.security.credentials import NoCredentials
from archon_services.cli.commands import agents
from archon_services.registry import RegistrySettings, registry_app
from tests.fixtures.agents import Dial, Gate, Serve, dial, serve

__all__ = ["dial", "serve"]

INSTANCE = Registration("designer", instance_id="designer-1", address="127.0.0.1:1", max_tasks=8)


async def test_instances_beyond_the_probed_ones_have_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "PROBED", 1)
    async with registry_app(RegistrySettings(etcd="memory", port=0)) as address, RegistryClient(address) as client:
        for role in ("designer", "tester"):
            await client.register(Registration(role, address="127.0.0.1:1"))
        listed = await agents._members(address)
    assert [(member.instance.role, member.answers) for member in listed] == [("designer", False), ("tester", None)]


async def test_an_instance_tells_its_load(serve: Serve, dial: Dial) -> None:
    gate = Gate()
    agent = await serve(gate.handle)
    member = agents._Member(replace(INSTANCE, address=agent.address), heartbeat_age=3.4)
    idle = await agents._asked(member, {"services": NoCredentials(), "agents": NoCredentials()})
    peer = await dial(agent)
    await peer.assign(peer.ref("one"), "x")
    await gate.reached()
    busy = await agents._asked(member, {"services": NoCredentials(), "agents": NoCredentials()})
    gate.open.set()
    assert [agents._row(shown)["tasks"] for shown in (member, idle, busy)] == ["-/8", "0/8", "1/8"]
    assert [agents._row(shown)["state"] for shown in (member, idle, busy)] == ["-", "healthy", "healthy"]


@pytest.mark.parametrize(("age", "shown"), [(0.0, "0 s ago"), (3.4, "3 s ago"), (None, "-")])
def test_the_heartbeat_is_shown_by_its_age(age: float | None, shown: str) -> None:
    assert agents._row(agents._Member(INSTANCE, age))["heartbeat"] == shown


async def test_the_last_heartbeat_is_that_of_the_lease() -> None:
    async with registry_app(RegistrySettings(etcd="memory", port=0)) as address, RegistryClient(address) as client:
        await client.register(replace(INSTANCE, ttl=3600.0))
        [member] = await agents._members(address)
    assert member.heartbeat_age is not None
    assert 0 <= member.heartbeat_age < 60
