"""The mesh that is up, or that was named: do its services and agents answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from archon_services.cli.checks.finding import Finding, ok, problem, warning
from archon_services.local_mesh import Home, MeshState, ProcessState
from archon_services.local_mesh.probe import Probe

if TYPE_CHECKING:
    from archon.registry import Registration

_MANY_RESTARTS: Final = 3
_ASKED: Final = 100
_TIMEOUT: Final = 3.0


async def check_processes(state: MeshState | None, home: Home) -> list[Finding]:
    """Every process of the mesh of this folder."""
    if state is None:
        return []
    answers = await asyncio.gather(*(_serves(one) for one in state.processes))
    found = []
    for process, serves in zip(state.processes, answers, strict=True):
        log = f"Its log is {home.log_file(process.name)}."
        if not serves:
            said = process.detail or ("it runs, but doesn't answer" if process.pid else process.condition)
            found.append(problem("mesh", f"{process.name} doesn't serve: {said}", log))
        elif process.restarts >= _MANY_RESTARTS:
            found.append(warning("mesh", f"{process.name} was started again {process.restarts} times", log))
    return found or [ok("mesh", f"{len(answers)} processes are up and healthy")]


async def check_named(kind: str, address: str) -> list[Finding]:
    """A service that was named rather than found."""
    if not address:
        return []
    async with Probe("service", address) as probe:
        if await probe.serves():
            return [ok("mesh", f"the {kind} at {address} serves")]
    return [problem("mesh", f"the {kind} at {address} doesn't serve", "Is it up, and is the address right?")]


async def check_agents(registry: str) -> list[Finding]:
    """Whether anybody is registered, and answers where it says it does. Nothing where the registry can't be asked,
    which another check tells."""
    instances = await _registered(registry) if registry else None
    if instances is None:
        return []
    if not instances:
        hint = "Start one: ARCHON_REGISTRY names the registry that it joins."
        return [warning("agents", "no agent is registered, so that no run can be taken on", hint)]
    dialled = [one for one in instances if one.address][:_ASKED]
    answers = await asyncio.gather(*(_answers(one.address) for one in dialled))
    silent = [one for one, answer in zip(dialled, answers, strict=True) if not answer]
    if silent:
        said = f"{silent[0].instance_id} at {silent[0].address}"
        said += f" and {len(silent) - 1} more of {len(instances)}" if len(silent) > 1 else ""
        hint = "From elsewhere they may: ARCHON_ADVERTISE is the address by which others dial an agent."
        return [warning("agents", f"registered, but not answering here: {said}", hint)]
    return [ok("agents", f"{len(instances)} registered, roles {', '.join(_roles(instances))}")]


def _roles(instances: Sequence[Registration]) -> list[str]:
    return sorted({one.role for one in instances})


async def _registered(registry: str) -> list[Registration] | None:
    from archon.errors import ArchonError
    from archon.registry import RegistryClient

    try:
        async with RegistryClient(registry) as client:
            return await client.list_instances(timeout=_TIMEOUT)
    except ArchonError:
        return None


async def _serves(process: ProcessState) -> bool:
    if not process.pid or not process.address:
        return False
    async with Probe(process.kind, process.address) as probe:
        return await probe.serves()


async def _answers(address: str) -> bool:
    async with Probe("agent", address) as probe:
        return await probe.serves()
