"""The error of a call that has reached another member of the mesh than it needs, such as an agent in place of the
orchestrator."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from archon.errors import Unimplemented

_MEMBERS: Final = {
    "orchestrator.v1.OrchestratorService": ("an orchestrator", "ARCHON_ORCHESTRATOR"),
    "orchestrator.v1.ScheduleService": ("an orchestrator", "ARCHON_ORCHESTRATOR"),
    "audit.v1.AuditService": ("an orchestrator", "ARCHON_ORCHESTRATOR"),
    "registry.v1.RegistryService": ("a registry", "ARCHON_REGISTRY"),
    "memory.v1.MemoryGraphService": ("a memory service", "ARCHON_MEMORY"),
    "memory.v1.WorkingMemoryService": ("a memory service", "ARCHON_MEMORY"),
    "memory.v1.LongTermMemoryService": ("a memory service", "ARCHON_MEMORY"),
    "agent.v1.AttachService": ("an orchestrator", "ARCHON_ATTACH"),
    "agent.v1.AgentService": ("an agent", ""),
    "tool.v1.ToolService": ("an agent", ""),
}
"""By service: the member that serves it, and the variable that has its address. An orchestrator serves the services
of agents, too, and registries and memory services have an AuditService: `_member` knows the order."""

_PREFIX: Final = "archon.api."


def wrong_service(method: str, served: Collection[str]) -> Unimplemented:
    """Returns the error of a call of `method` (the full name of an RPC) to a server of the services `served`."""
    service, _, name = method.lstrip("/").partition("/")
    own = _member(served)
    wanted, variable = _MEMBERS.get(service.removeprefix(_PREFIX), ("", ""))
    if service in served:
        text = f"this release of {own} has no {name}: install the same release of Archon on both sides"
    elif not wanted or not own:
        text = f"no service here has {method}"
    else:
        where = f"correct {variable}, or the option in its place" if variable else "call it at its own address"
        command = "`archon agents` lists the agents" if not variable else "`archon status` lists the addresses"
        text = f"this is {own}, and the call is for {wanted}: {where}; {command}"
    return Unimplemented(text, metadata={"method": method})


def _member(served: Collection[str]) -> str:
    """Returns the member of the mesh that serves these services; empty if none does."""
    if any(service.startswith(f"{_PREFIX}registry.") for service in served):
        return "a registry"
    if any(service.startswith(f"{_PREFIX}memory.") for service in served):
        return "a memory service"
    return next((member for service, (member, _) in _MEMBERS.items() if f"{_PREFIX}{service}" in served), "")
