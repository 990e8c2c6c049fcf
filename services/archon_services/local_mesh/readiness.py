"""Readiness of the mesh as a whole: registrations, and answers of the orchestrator and of etcd."""

from __future__ import annotations

import asyncio
from typing import Final

from archon.errors import ArchonError, Unavailable
from archon.security.certificates import CertificateFolder
from archon.security.credentials import Credentials, TokenFile, Tokens
from archon_services.local_mesh.plan import Plan
from archon_services.local_mesh.probe import open_address

CALL_TIMEOUT: Final = 5.0
ETCD_TIMEOUT: Final = 2.0


async def registered_addresses(plan: Plan) -> set[str]:
    """Returns the addresses of all instances that are registered in a mesh; empty if its registry is unreachable."""
    from archon.registry import RegistryClient

    async with RegistryClient(plan.registry, credentials=_credentials(plan), certificate=_certificate(plan)) as client:
        try:
            return {instance.address for instance in await client.list_instances(timeout=CALL_TIMEOUT)}
        except ArchonError:
            return set()


async def wait_for_orchestrator(plan: Plan, address: str) -> None:
    """Waits until the orchestrator answers; the caller sets the deadline."""
    from archon.client import Client

    async with Client(address, credentials=_credentials(plan), certificate=_certificate(plan)) as client:
        while True:
            try:
                await client.list_runs(limit=1)
                return
            except ArchonError:
                await asyncio.sleep(0.05)


def _credentials(plan: Plan) -> Credentials | None:
    """The token of the user in the folder of the mesh, wherever the command was called; None if others issue tokens."""
    return Tokens(TokenFile(plan.home.folder.token_file)) if plan.has_keys else None


def _certificate(plan: Plan) -> CertificateFolder | None:
    return CertificateFolder(plan.home.folder.user_certificate) if plan.tls else None


async def check_etcd(members: str) -> None:
    """Raises Unavailable if none of the members, `host:port,host:port` or unix:PATH, accepts a connection."""
    for member in members.split(","):
        try:
            async with asyncio.timeout(ETCD_TIMEOUT):
                _, writer = await open_address(member.strip())
        except (OSError, TimeoutError, ValueError):
            continue
        writer.close()
        return
    raise Unavailable(f"no etcd answers at {members}")
