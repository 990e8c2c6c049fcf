"""Serves a role whose tasks are tasks of an A2A agent elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from a2a.types import a2a_pb2

from archon.agent import AgentServer
from archon.errors import InvalidArgument
from archon.identifiers import capability_fault, check_role, suggested_role
from archon.registry import Capability
from archon.telemetry import logs
from archon_services.agents.a2a.handler import A2ARole
from archon_services.agents.a2a.remote import RemoteAgent, RemoteOptions
from archon_services.agents.settings import AgentServiceSettings
from archon_services.common.process import run

MAX_TASKS = 100
"""Tasks at a time: each only waits for its agent."""

MAX_SKILLS = 100
"""Skills of a card that become capabilities."""


@dataclass(frozen=True, slots=True)
class A2ARoleOptions:
    """The agent, and the role that stands for it. An empty role has the name of the agent, an empty description the
    agent's; further `capabilities` are added to its skills."""

    remote: RemoteOptions
    role: str = ""
    description: str = ""
    capabilities: Sequence[str] = ()


def role_of(options: A2ARoleOptions, card: a2a_pb2.AgentCard) -> str:
    """Returns the name of the role. Raises InvalidArgument if the name of the agent is no name of a role."""
    name = options.role or suggested_role(card.name)
    if not name:
        raise InvalidArgument(f"the name of the agent, {card.name[:100]!r}, is no name of a role: give one by --name")
    return check_role(name)


def capabilities_of(options: A2ARoleOptions, card: a2a_pb2.AgentCard) -> list[Capability]:
    """Returns the skills of an agent as capabilities. An id that no capability may have is made one."""
    found: dict[str, Capability] = {}
    for skill in card.skills[:MAX_SKILLS]:
        name = skill.id if not capability_fault(skill.id) else suggested_role(skill.id)
        if name:
            found[name] = Capability(
                name,
                skill.name,
                skill.description[:1_000],
                tuple(skill.tags)[:20],
                tuple(skill.examples)[:5],
                tuple(skill.input_modes),
                tuple(skill.output_modes),
            )
    for name in options.capabilities:
        found[name] = Capability(name)
    return list(found.values())


@asynccontextmanager
async def a2a_role_app(options: A2ARoleOptions, settings: AgentServiceSettings) -> AsyncIterator[str]:
    """Serves the role inside the block and drains at its end; yields host:port. Raises the errors of RemoteAgent.card,
    and Unavailable if the port is in use."""
    async with RemoteAgent(options.remote) as agent, A2ARole(agent) as role:
        card = await agent.card()
        server = AgentServer(
            role_of(options, card),
            description=options.description or card.description[:1_000] or f"The A2A agent {card.name}.",
            capabilities=capabilities_of(options, card),
            max_tasks=MAX_TASKS,
            handler=role.handle,
            settings=settings.agent_settings(),
        )
        logs.identify(server.instance_id)
        try:
            yield await server.start()
        finally:
            await server.stop(settings.drain)


def serve_a2a_role(options: A2ARoleOptions, settings: AgentServiceSettings) -> int:
    """Serves the role until a signal and returns the exit code."""
    name = options.role or "a2a"
    return run(name, lambda: a2a_role_app(options, settings), settings, service_name=name)
