"""Readiness of the mesh as a whole: registrations, and answers of the orchestrator and of etcd."""

from __future__ import annotations

import asyncio
from typing import Final

from archon.errors import ArchonError, Unavailable

CALL_TIMEOUT: Final = 5.0
ETCD_TIMEOUT: Final = 2.0


async def registered_addresses(registry: str) -> set[str]:
    """Returns the addresses of all registered instances; empty if the registry is unreachable."""
    from archon.registry import RegistryClient

    async with RegistryClient(registry) as client:
        try:
            return {instance.address for instance in await client.list_instances(timeout=CALL_TIMEOUT)}
        except ArchonError:
            return set()


async def wait_for_orchestrator(address: str) -> None:
    """Waits until the orchestrator answers; the caller sets the deadline."""
    from archon.client import Client

    async with Client(address) as client:
        while True:
            try:
                await client.list_runs(limit=1)
                return
            except ArchonError:
                await asyncio.sleep(0.05)


async def check_etcd(members: str) -> None:
    """Raises Unavailable if none of the members, `host:port,host:port`, accepts a connection."""
    for member in members.split(","):
        host, _, port = member.strip().rpartition(":")
        try:
            async with asyncio.timeout(ETCD_TIMEOUT):
                _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        except (OSError, TimeoutError, ValueError):
            continue
        writer.close()
        return
    raise Unavailable(f"no etcd answers at {members}")
