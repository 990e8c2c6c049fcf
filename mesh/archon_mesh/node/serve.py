"""Serves a role in a process of its own, configured by environment variables."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from functools import partial
from typing import Final

from archon.agent import AgentServer, AgentSettings
from archon.errors import ArchonError
from archon.learning import VARIANTS_TAG, variants_tag
from archon.process_input import clean_environment, open_standard_streams
from archon.registry import Capability
from archon.telemetry import logs
from archon_mesh.agent.agent import Agent
from archon_mesh.node.arbiter.handler import arbiter_handler
from archon_mesh.node.handler import agent_from_role, agent_handler
from archon_mesh.node.role import Role
from archon_mesh.node.shared_tools import shared_tools
from archon_mesh.node.tools import tool_descriptions, tool_health

_log = logging.getLogger(__name__)

MODEL_TAG: Final = "model"
"""The tag of a registration that has the name of the agent's model, unless the role sets it."""

CONNECT_TIMEOUT: Final = 10.0
"""Seconds that the start of a role waits for its sources of tools."""

MAX_TAG: Final = 256
"""Characters of a tag's value that the registry accepts."""


def agent_server(
    role: Role, agent: Agent, settings: AgentSettings | None = None, *, memory: str | None = None
) -> AgentServer:
    """Returns an AgentServer, not started, that serves the role with an agent. The caller closes the agent after it.

    `memory` (host:port) is the memory service through which the agents of a run share their storage, as in
    `agent_handler`. `settings` None reads the environment. Raises InvalidArgument if a variable is invalid or a tool
    cannot be shared, and the errors of creating the agent's model.
    """
    if role.arbiter is not None:
        handler = arbiter_handler(agent, role.arbiter)
    else:
        delegates, asks = role.coordinator, role.asks_credentials
        handler = agent_handler(agent, delegates=delegates, asks_credentials=asks, memory=memory)
    model = agent.model  # reports an unusable model now, instead of with the first task
    return AgentServer(
        role.name,
        version=role.version,
        description=role.description,
        capabilities=[
            Capability(capability) if isinstance(capability, str) else capability for capability in role.capabilities
        ],
        tools=tool_descriptions(agent.tools, agent.policy),
        shared_tools=shared_tools(agent),
        depends_on=role.depends_on,
        all_ancestors=role.all_ancestors,
        coordinator=role.coordinator,
        stateful=role.stateful,
        planner=role.planner,
        profile=role.profile,
        output=agent.output.type if agent.output is not None and role.arbiter is None else None,
        tags={MODEL_TAG: model.model[:MAX_TAG], **_variants(agent), **role.tags},
        max_tasks=role.max_tasks,
        handler=handler,
        tool_health=partial(tool_health, agent.engine),
        holds_breakpoints=role.arbiter is None,
        settings=settings,
    )


def _variants(agent: Agent) -> dict[str, str]:
    tag = variants_tag(sorted(agent.prompt_variants))
    return {VARIANTS_TAG: tag} if tag else {}


def serve(role: Role, agent: Agent | None = None) -> int:
    """Serves the role until SIGTERM or SIGINT, then drains. Returns the exit code of the process.

    The exit code is 2 if the environment is invalid, and 1 if the server could not start. `agent` defaults to one built
    from the role. The environment has the variables of AgentSettings, plus ARCHON_MEMORY and ARCHON_MODEL: `offline`
    (the default, whatever keys are set), or another spec for `create_model`.
    """
    open_standard_streams()
    clean_environment()
    try:
        settings = AgentSettings.from_environment()
        logs.setup(role.name, settings.log_level, log_format=settings.log_format)
        served_agent = agent or agent_from_role(role, os.environ.get("ARCHON_MODEL") or "offline")
        return asyncio.run(_serve(role, served_agent, settings))
    except ArchonError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    finally:
        logs.close()


async def connect_tools(agent: Agent) -> None:
    """Connects the agent's sources of tools, so that its registration lists their tools. One that cannot be connected
    within CONNECT_TIMEOUT is logged: each run tries again."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            await agent.connect_tools()
    except (ArchonError, TimeoutError) as error:
        reason = str(error) or f"no answer within {CONNECT_TIMEOUT:.0f} s"
        _log.warning("not all tools of %s are registered: %s", agent.name, reason)


async def _serve(role: Role, agent: Agent, settings: AgentSettings) -> int:
    async with agent:
        await connect_tools(agent)
        server = agent_server(role, agent, settings)
        logs.identify(server.instance_id)
        return await server.serve()
