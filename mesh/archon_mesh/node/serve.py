"""A role as a process of its own, told by its environment alone."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from archon.agent import AgentServer, AgentSettings
from archon.errors import ArchonError
from archon.registry import Capability
from archon_mesh.llm import ModelClient, create_model
from archon_mesh.node.playing import answer_with
from archon_mesh.node.role import Role


def agent_server(role: Role, model: ModelClient, settings: AgentSettings | None = None) -> AgentServer:
    """The role behind an AgentServer that isn't started yet. The caller closes the model after it. Settings come from
    the environment where None; raises InvalidArgument that names a wrong variable."""
    return AgentServer(
        role.name,
        version=role.version,
        description=role.description,
        capabilities=[Capability(one) if isinstance(one, str) else one for one in role.capabilities],
        depends_on=role.depends_on,
        all_ancestors=role.all_ancestors,
        coordinator=role.coordinator,
        tags=dict(role.tags),
        max_tasks=role.max_tasks,
        handler=answer_with(role, model),
        settings=settings,
    )


def serve(role: Role) -> int:
    """Serves the role until SIGTERM or SIGINT, then drains; returns the process's exit code: 2 where the environment is
    wrong, 1 where it couldn't start.

    The environment is that of AgentSettings, and ARCHON_MODEL: `offline` (also where it isn't set, whatever keys there
    are) or `openai/NAME`.
    """
    try:
        settings = AgentSettings.from_environment()
        logging.basicConfig(
            level=settings.log_level.upper(), format=f"%(asctime)s %(levelname)-7s {role.name} %(message)s"
        )
        return asyncio.run(_serve(role, settings, os.environ.get("ARCHON_MODEL") or "offline"))
    except ArchonError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2


async def _serve(role: Role, settings: AgentSettings, spec: str) -> int:
    model = create_model(spec)
    try:
        return await agent_server(role, model, settings).serve()
    finally:
        await model.close()
