"""Wiring: an agent, the model that plays it, the server in front of both."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from archon_mesh.agent import Agent
from archon_mesh.declared import load_agent
from archon_mesh.node import Role, agent_from_role, agent_server
from archon_services.agents.settings import AgentServiceSettings
from archon_services.common.process import run
from archon_services.common.settings import load_or_exit


@asynccontextmanager
async def agent_app(role: Role, agent: Agent, settings: AgentServiceSettings) -> AsyncIterator[str]:
    """Serves while the block lasts, then drains; yields host:port. Raises Unavailable where the port is taken,
    InvalidArgument for a model that isn't known or a registration that is refused, Unauthenticated without the key
    that the model needs."""
    async with agent:
        server = agent_server(role, agent, settings.agent_settings(), memory=settings.memory)
        try:
            yield await server.start()
        finally:
            await server.stop()


def serve_role(role: Role, settings: AgentServiceSettings, agent: Agent | None = None) -> int:
    """Until a signal; the exit code. `agent` plays the role, None: one that is made of it."""
    return run(
        role.name,
        lambda: agent_app(role, agent or agent_from_role(role, settings.model), settings),
        log_level=settings.log_level,
        ready_file=settings.ready_file,
    )


def serve_file(path: str, settings: AgentServiceSettings) -> int:
    """As `serve_role`, for a role that a file declares. Raises NotFound and InvalidArgument for the file."""
    declared = load_agent(path, model=settings.model)
    return serve_role(declared.role, settings, declared.agent)


def main(role: Role) -> int:
    """Reads flags, environment and file, serves until a signal; returns the exit code."""
    return serve_role(role, load_or_exit(AgentServiceSettings))
