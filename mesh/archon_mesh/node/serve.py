"""A role as a process of its own, told by its environment alone."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys

from archon.agent import AgentServer, AgentSettings
from archon.errors import ArchonError
from archon.registry import Capability, Tool
from archon_mesh.agent.agent import Agent
from archon_mesh.node.handler import agent_of, play
from archon_mesh.node.role import Role


def agent_server(
    role: Role, agent: Agent, settings: AgentSettings | None = None, *, memory: str | None = None
) -> AgentServer:
    """The role, played by an agent, behind an AgentServer that isn't started yet. The caller closes the agent after it.
    `memory` (host:port) is the memory service through which the agents of a run share their storage: see `play`.
    Settings come from the environment where None; raises InvalidArgument that names a wrong variable, and what making
    the agent's model raises."""
    _ = agent.models.client  # a model that can't be had is said now, and not with the first task
    return AgentServer(
        role.name,
        version=role.version,
        description=role.description,
        capabilities=[Capability(one) if isinstance(one, str) else one for one in role.capabilities],
        tools=[Tool(one.name, one.description, json.dumps(dict(one.parameters_schema))) for one in agent.tools.specs],
        depends_on=role.depends_on,
        all_ancestors=role.all_ancestors,
        coordinator=role.coordinator,
        stateful=role.stateful,
        tags=dict(role.tags),
        max_tasks=role.max_tasks,
        handler=play(agent, delegates=role.coordinator, memory=memory),
        settings=settings,
    )


def serve(role: Role, agent: Agent | None = None) -> int:
    """Serves the role until SIGTERM or SIGINT, then drains; returns the process's exit code: 2 where the environment is
    wrong, 1 where it couldn't start. `agent` plays it, None: one that is made of the role.

    The environment is that of AgentSettings, ARCHON_MODEL: `offline` (also where it isn't set, whatever keys there
    are) or `openai/NAME`, and ARCHON_MEMORY.
    """
    try:
        settings = AgentSettings.from_environment()
        logging.basicConfig(
            level=settings.log_level.upper(), format=f"%(asctime)s %(levelname)-7s {role.name} %(message)s"
        )
        player = agent or agent_of(role, os.environ.get("ARCHON_MODEL") or "offline")
        return asyncio.run(_serve(role, player, settings))
    except ArchonError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2


async def _serve(role: Role, agent: Agent, settings: AgentSettings) -> int:
    async with agent:
        return await agent_server(role, agent, settings).serve()
