"""An agent's tools as the mesh sees them: their descriptions, and how their calls have ended."""

from __future__ import annotations

import json

from archon.agent import ToolHealth
from archon.registry import Tool
from archon_mesh.tools.engine import ToolExecutionEngine
from archon_mesh.tools.permissions import ToolPermissions
from archon_mesh.tools.registry import Registration, ToolRegistry


def tool_descriptions(registry: ToolRegistry, permissions: ToolPermissions | None = None) -> list[Tool]:
    """Returns the tools as an agent registers them: without those that its permissions allow in no session."""
    allowed = permissions or ToolPermissions(allowed=frozenset(registry.names))
    return [
        tool_description(each)
        for each in registry.registrations
        if allowed.ever_allows(each.name, dangerous=each.tool.dangerous)
    ]


def tool_description(registered: Registration) -> Tool:
    """Returns a tool as an agent registers it."""
    tool = registered.tool
    return Tool(
        registered.name,
        tool.description,
        json.dumps(dict(tool.parameters_schema)),
        destructive=tool.dangerous,
        idempotent=tool.idempotent,
    )


def tool_health(engine: ToolExecutionEngine) -> list[ToolHealth]:
    """Returns the health of each tool of an engine, sorted by name."""
    versions = {each.name: each.tool.version for each in engine.registry.registrations}
    return [
        ToolHealth(
            name=name,
            version=versions.get(name, ""),
            calls=health.calls,
            failures=health.failures,
            timeouts=health.timeouts,
            cached=health.cached,
            mean_latency=health.mean_latency_ms / 1000,
            p95_latency=health.p95_latency_ms / 1000,
            slow=health.slow,
            breaker=health.breaker.value,
        )
        for name, health in sorted(engine.health().items())
    ]
