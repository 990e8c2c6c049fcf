"""The capabilities of an agent, as a front end may ask for them."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from ag_ui.core import (
    AgentCapabilities,
    HumanInTheLoopCapabilities,
    IdentityCapabilities,
    MultiAgentCapabilities,
    MultimodalCapabilities,
    MultimodalInputCapabilities,
    OutputCapabilities,
    ReasoningCapabilities,
    StateCapabilities,
    SubagentInfo,
    Tool,
    ToolsCapabilities,
    TransportCapabilities,
)

from archon_services.gateway.agents import MeshAgent


def capabilities_of(agent: MeshAgent) -> dict[str, Any]:
    """Returns the capabilities of a role, or of the mesh itself, as JSON."""
    capabilities = AgentCapabilities(
        identity=IdentityCapabilities(
            name=agent.name or "archon",
            type="archon",
            description=agent.description or None,
            version=agent.version or version("archon-mesh"),
        ),
        transport=TransportCapabilities(streaming=True, resumable=True),
        tools=ToolsCapabilities(
            supported=True, items=[Tool(name=name, description=name) for name in agent.tools], client_provided=True
        ),
        output=OutputCapabilities(structured_output=bool(agent.output_schema_json)),
        state=StateCapabilities(snapshots=True, deltas=True, memory=True, persistent_state=False),
        multi_agent=MultiAgentCapabilities(
            supported=True,
            delegation=True,
            subagents=[SubagentInfo(name=role.name, description=role.description or None) for role in agent.roles],
        ),
        reasoning=ReasoningCapabilities(supported=True, streaming=True, encrypted=False),
        multimodal=MultimodalCapabilities(
            input=MultimodalInputCapabilities(image=True, audio=True, video=True, pdf=True, file=True)
        ),
        human_in_the_loop=HumanInTheLoopCapabilities(
            supported=True, approvals=True, interrupts=True, approve_with_edits=True
        ),
    )
    return capabilities.model_dump(by_alias=True, mode="json")
