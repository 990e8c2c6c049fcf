"""The instances that `archon agents` lists, from a registry in this process."""

from __future__ import annotations

import pytest

from archon.registry import Registration, RegistryClient
from archon_services.cli.commands import agents
from archon_services.registry import RegistrySettings, registry_app


async def test_instances_beyond_the_probed_ones_have_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "PROBED", 1)
    async with registry_app(RegistrySettings(etcd="memory", port=0)) as address, RegistryClient(address) as client:
        for role in ("designer", "tester"):
            await client.register(Registration(role, address="127.0.0.1:1"))
        listed = await agents._instances(address)
    assert [(instance.role, answers) for instance, answers in listed] == [("designer", False), ("tester", None)]
