"""Wires a role, the agent with its model, and the gRPC server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from archon.agent import AgentServer
from archon.telemetry import logs
from archon_mesh.agent import Agent
from archon_mesh.declared import load_agent
from archon_mesh.node import Role, agent_from_role, agent_server
from archon_mesh.node.serve import connect_tools
from archon_services.agents.settings import AgentServiceSettings
from archon_services.common.process import run


@asynccontextmanager
async def agent_app(role: Role, agent: Agent, settings: AgentServiceSettings) -> AsyncIterator[str]:
    """Serves the role inside the block and drains at its end; yields host:port.

    Raises Unavailable if the port is in use, InvalidArgument for an unknown model or a rejected registration, and
    Unauthenticated if the model's key is missing.
    """
    async with agent:
        await connect_tools(agent)
        server = agent_server(role, agent, settings.agent_settings(), memory=settings.memory)
        async with _serving(server, settings.drain) as address:
            yield address


@asynccontextmanager
async def _serving(server: AgentServer, drain: float) -> AsyncIterator[str]:
    logs.identify(server.instance_id)
    try:
        yield await server.start()
    finally:
        await server.stop(drain)


def serve_role(role: Role, settings: AgentServiceSettings, agent: Agent | None = None) -> int:
    """Serves a role until a signal and returns the exit code. By default creates the agent from the role."""
    return run(
        role.name,
        lambda: agent_app(role, agent or agent_from_role(role, settings.model), settings),
        settings,
        service_name=role.name,
    )


def serve_workflows(settings: AgentServiceSettings) -> int:
    """Serves the role that interprets workflows, as `serve_role` does; it has no model. Raises FailedPrecondition
    without jinja2."""
    from archon_mesh.workflows.role import ROLE, workflow_server
    from archon_mesh.workflows.sandbox import template

    template("")  # so that a missing package is an error of the start

    return run(
        ROLE,
        lambda: _serving(workflow_server(settings.agent_settings()), settings.drain),
        settings,
        service_name=ROLE,
    )


def serve_file(path: str, settings: AgentServiceSettings) -> int:
    """As `serve_role` for the role in a YAML file. Raises NotFound and InvalidArgument for the file."""
    declared = load_agent(path, model=settings.model, overrides=settings.overrides())
    return serve_role(declared.role, settings, declared.agent)
