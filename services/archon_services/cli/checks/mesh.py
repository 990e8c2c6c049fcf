"""The running mesh: whether its processes, the services at explicit addresses, and the agents answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from archon_services.cli.checks.finding import Finding, ok, problem, warning
from archon_services.local_mesh import Home, MeshState, ProcessState
from archon_services.local_mesh.probe import Probe

if TYPE_CHECKING:
    from archon.registry import Registration
    from archon.security.certificates import CertificateFolder

_MANY_RESTARTS: Final = 3
_PROBED: Final = 100
"""Instances that are probed at most."""

_TIMEOUT: Final = 3.0


async def check_processes(state: MeshState | None, home: Home) -> list[Finding]:
    """Checks every process of the mesh in `home`. Returns nothing if none is running."""
    if state is None:
        return []
    from archon.security.certificates import CertificateFolder

    certificate = CertificateFolder(home.folder.user_certificate) if state.tls else None
    serving = await asyncio.gather(*(_process_serves(process, certificate) for process in state.processes))
    findings = []
    for process, serves in zip(state.processes, serving, strict=True):
        log = f"Its log is {home.log_file(process.name)}."
        if not serves:
            reason = process.detail or ("no answer" if process.pid else process.condition)
            findings.append(problem("mesh", f"{process.name} does not serve: {reason}", log))
        elif process.restarts >= _MANY_RESTARTS:
            findings.append(warning("mesh", f"{process.name} was restarted {process.restarts} times", log))
    return findings or [ok("mesh", f"{len(serving)} processes are healthy")]


async def check_service(name: str, address: str) -> list[Finding]:
    """Checks a service at an explicit address. Returns nothing if `address` is empty."""
    if not address:
        return []
    if await _serves("service", address, name):
        return [ok("mesh", f"the {name} at {address} serves")]
    hint = "Check that it is running and that the address is right."
    return [problem("mesh", f"the {name} at {address} does not serve", hint)]


async def check_agents(registry: str) -> list[Finding]:
    """Checks that agents are registered and answer at their addresses.

    Returns nothing if the registry is unreachable, which another check reports.
    """
    instances = await _instances(registry) if registry else None
    if instances is None:
        return []
    if not instances:
        hint = "Start an agent with ARCHON_REGISTRY set to the address of the registry."
        return [warning("agents", "no agents are registered, so no runs can be submitted", hint)]
    dialled = [instance for instance in instances if instance.address][:_PROBED]
    answers = await asyncio.gather(*(_serves("agent", instance.address, instance.role) for instance in dialled))
    silent = [instance for instance, answer in zip(dialled, answers, strict=True) if not answer]
    if silent:
        message = f"registered, but no answer: {silent[0].instance_id} at {silent[0].address}"
        message += f" and {len(silent) - 1} more of {len(instances)}" if len(silent) > 1 else ""
        hint = "It may be reachable from other machines: set ARCHON_ADVERTISE to the address that others dial."
        return [warning("agents", message, hint)]
    roles = sorted({instance.role for instance in instances})
    return [ok("agents", f"{len(instances)} registered, roles {', '.join(roles)}")]


async def _instances(registry: str) -> list[Registration] | None:
    from archon.errors import ArchonError
    from archon.registry import RegistryClient

    try:
        async with RegistryClient(registry) as client:
            return await client.list_instances(timeout=_TIMEOUT)
    except ArchonError:
        return None


async def _process_serves(process: ProcessState, certificate: CertificateFolder | None) -> bool:
    if not (process.pid and process.address):
        return False
    async with Probe(process.kind, process.address, _peer_name(process), certificate=certificate) as probe:
        return await probe.serves()


def _peer_name(process: ProcessState) -> str:
    """The name of a service, or the role of an agent, such as designer of designer-1."""
    return process.name.rpartition("-")[0] if process.kind == "agent" else process.name


async def _serves(kind: str, address: str, name: str) -> bool:
    async with Probe(kind, address, name) as probe:
        return await probe.serves()
