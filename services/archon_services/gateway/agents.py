"""The agents that rooms offer: the roles of a tenant that have a live instance, and the mesh itself."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from archon import context
from archon.identifiers import role_fault
from archon.registry import Capability, RegistryClient, Tool
from archon.registry.registration import Registration

FRESH: Final = 2.0
"""Seconds for which the registry is not asked again: callers without a token read cards as well."""

MAX_TENANTS: Final = 1_000
"""Tenants whose roles are remembered."""

CALL_TIMEOUT: Final = 5.0


@dataclass(frozen=True, slots=True)
class MeshAgent:
    """An agent that rooms offer. `name` is the role; empty for the mesh itself, which has its `roles`. `shared_tools`
    are lent to callers, each once, whatever the number of instances."""

    name: str
    description: str = ""
    version: str = ""
    capabilities: Sequence[Capability] = ()
    tools: Sequence[str] = ()
    output_schema_json: str = ""
    prompt_template: str = ""
    shared_tools: Sequence[Tool] = ()
    roles: Sequence[MeshAgent] = ()
    stateful: bool = False
    """Whether the role keeps the conversation of each session."""


class AgentDirectory:
    """Reads the roles of a tenant from the registry, with the gateway's own credentials."""

    def __init__(self, registry: RegistryClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._registry = registry
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, Mapping[str, MeshAgent]]] = OrderedDict()

    async def find(self, name: str, tenant: str) -> MeshAgent | None:
        """Returns the agent for a role, or for an empty name the mesh itself; None if no instance of the role is live.
        Raises Unavailable if the registry does not answer."""
        if name and role_fault(name):
            return None
        roles = await self._roles(tenant)
        if name:
            return roles.get(name)
        return MeshAgent("", roles=tuple(roles[role] for role in sorted(roles)))

    async def _roles(self, tenant: str) -> Mapping[str, MeshAgent]:
        read, roles = self._known.get(tenant, (-FRESH, {}))
        if self._clock() - read < FRESH:
            return roles
        with context.serving(replace(context.CallContext(), tenant=tenant)):
            instances = await self._registry.list_instances(timeout=CALL_TIMEOUT)
        roles = _by_role(each for each in instances if each.tenant == tenant)
        self._known[tenant] = self._clock(), roles
        self._known.move_to_end(tenant)
        if len(self._known) > MAX_TENANTS:
            self._known.popitem(last=False)
        return roles


def _by_role(instances: Iterable[Registration]) -> Mapping[str, MeshAgent]:
    """Returns an agent for each role: of its newest version."""
    roles: dict[str, Registration] = {}
    for instance in instances:
        known = roles.get(instance.role)
        if known is None or _version(instance.version) > _version(known.version):
            roles[instance.role] = instance
    return {
        role: MeshAgent(
            role,
            each.description,
            each.version,
            tuple(each.capabilities),
            tuple(tool.name for tool in each.tools),
            each.output_schema_json,
            each.profile.prompt_template if each.profile is not None else "",
            tuple(tool for tool in each.tools if tool.share is not None),
            stateful=each.stateful,
        )
        for role, each in roles.items()
    }


def _version(text: str) -> list[int]:
    return [int(number) for number in text.split(".") if number.isdecimal()]
