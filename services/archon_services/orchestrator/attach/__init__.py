"""Agents that cannot be dialled: they attach to an orchestrator, which relays their sessions and calls."""

from archon_services.orchestrator.attach.calls import RelayedCalls
from archon_services.orchestrator.attach.relay import AttachRelay
from archon_services.orchestrator.attach.servicer import (
    AGENT_SERVICE,
    ATTACH_SERVICE,
    TOOL_SERVICE,
    AttachServicer,
    RelayedAgentServicer,
    RelayedToolServicer,
)

__all__ = [
    "AGENT_SERVICE",
    "ATTACH_SERVICE",
    "TOOL_SERVICE",
    "AttachRelay",
    "AttachServicer",
    "RelayedAgentServicer",
    "RelayedCalls",
    "RelayedToolServicer",
]
