"""Whether the mesh as a whole can take runs: what registry and orchestrator say."""

from __future__ import annotations

import asyncio
from typing import Final

from archon.errors import ArchonError, Unavailable

CALL_TIMEOUT: Final = 5.0
ETCD_TIMEOUT: Final = 2.0


async def registered_addresses(registry: str) -> set[str]:
    """The addresses of all instances; empty where the registry can't be asked now."""
    from archon.registry import RegistryClient

    async with RegistryClient(registry) as client:
        try:
            return {one.address for one in await client.list_instances(timeout=CALL_TIMEOUT)}
        except ArchonError:
            return set()


async def orchestrator_answers(address: str) -> None:
    """Returns once it answers. Bounded by the caller's deadline."""
    from archon.client import Client

    async with Client(address) as client:
        while True:
            try:
                await client.list_runs(limit=1)
                return
            except ArchonError:
                await asyncio.sleep(0.05)


async def etcd_answers(members: str) -> None:
    """Raises Unavailable where none of `host:port,host:port` takes a connection."""
    for member in members.split(","):
        host, _, port = member.strip().rpartition(":")
        try:
            async with asyncio.timeout(ETCD_TIMEOUT):
                _, writer = await asyncio.open_connection(host, int(port))
        except (OSError, TimeoutError, ValueError):
            continue
        writer.close()
        return
    raise Unavailable(f"no etcd answers at {members}")
