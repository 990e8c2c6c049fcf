"""Wiring: a role, the model that plays it, the server in front of both."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from archon_mesh.llm import create_model
from archon_mesh.node import Role, agent_server
from archon_services.agents.settings import AgentServiceSettings
from archon_services.process import run
from archon_services.settings import load_or_exit


@asynccontextmanager
async def agent_app(role: Role, settings: AgentServiceSettings) -> AsyncIterator[str]:
    """Serves while the block lasts, then drains; yields host:port. Raises Unavailable where the port is taken,
    InvalidArgument for a model that isn't known or a registration that is refused, Unauthenticated without the key
    that the model needs."""
    model = create_model(settings.model)
    try:
        agent = agent_server(role, model, settings.agent_settings())
        try:
            yield await agent.start()
        finally:
            await agent.stop()
    finally:
        await model.close()


def main(role: Role) -> int:
    """Reads flags, environment and file, serves until a signal; returns the exit code."""
    settings = load_or_exit(AgentServiceSettings)
    return run(
        role.name, lambda: agent_app(role, settings), log_level=settings.log_level, ready_file=settings.ready_file
    )
