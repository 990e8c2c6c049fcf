"""The agent server of a gateway."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from archon.agent import AgentServer, AgentSettings
from archon.federation.gateway import MeshGateway
from archon.registry import Capability

MAX_TASKS: Final = 100
"""Tasks of a gateway at a time: each only waits for its run."""


def gateway_server(
    gateway: MeshGateway,
    role: str = "",
    *,
    description: str = "",
    capabilities: Sequence[Capability | str] = (),
    max_tasks: int = MAX_TASKS,
    settings: AgentSettings | None = None,
) -> AgentServer:
    """Returns the server of the role that hands its tasks to the other mesh, not started; the caller closes the gateway
    after it. The role has the name of the mesh by default. Raises InvalidArgument if that is no name of a role."""
    return AgentServer(
        role or gateway.name,
        description=description or f"Hands a task to the mesh {gateway.name}, which has agents of its own.",
        capabilities=[each if isinstance(each, Capability) else Capability(each) for each in capabilities],
        max_tasks=max_tasks,
        handler=gateway.handle,
        settings=settings,
    )
