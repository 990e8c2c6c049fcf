"""A client that is closed leaves the address of its server alone: another server may have it by now."""

from __future__ import annotations

import asyncio

from archon.registry import Registration, RegistryClient
from archon_services.registry.app import registry_app
from archon_services.registry.settings import RegistrySettings
from tests.fixtures.ports import free_ports
from tests.fixtures.waiting import hold

RECONNECTS = 1.5
"""Seconds in which a channel that is open connects again several times."""


async def test_a_closed_client_connects_to_nothing() -> None:
    [port] = free_ports(1)
    connections: list[object] = []

    def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer.get_extra_info("peername"))
        writer.close()

    client = RegistryClient(f"127.0.0.1:{port}")
    async with registry_app(RegistrySettings(etcd="memory", host="127.0.0.1", port=port)):
        await client.list_instances()
        await client.register(Registration(role="poet", address="127.0.0.1:1"))
        await client.close()
    async with await asyncio.start_server(connected, "127.0.0.1", port):
        await hold(RECONNECTS)
    assert connections == []
