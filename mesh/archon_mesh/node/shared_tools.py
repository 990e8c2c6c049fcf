"""The tools that an agent shares, executed through its own engine: with its permissions, limits and credentials."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from archon.errors import InvalidArgument
from archon.tools import SharedTool, SharedToolCall, SharedToolResult, SharedToolStatus
from archon.tools.shared_tool import CALLS_PER_MINUTE, MAX_SECONDS, TOTAL_PER_MINUTE
from archon_mesh.agent.agent import Agent
from archon_mesh.core.media import Media
from archon_mesh.node.tools import tool_description
from archon_mesh.tools.engine import ToolExecutionEngine
from archon_mesh.tools.progress import bind_progress
from archon_mesh.tools.result import ToolResult, ToolResultStatus
from archon_mesh.tools.tool import Tool, share_refusal

MARGIN: Final = 0.05
"""Seconds that the engine ends a call earlier than the owner would: it says more about the failure."""

_log = logging.getLogger(__name__)


def shared_tools(agent: Agent) -> list[SharedTool]:
    """Returns the tools of an agent that are declared as shared, or named by its `shared_tools`. One that its policy
    refuses is left out, with a warning; a dangerous one must be allowed by its name. Raises InvalidArgument if a tool
    cannot be shared."""
    return list(_shared(agent))


def _shared(agent: Agent) -> Iterator[SharedTool]:
    for registered in agent.tools.registrations:
        tool, name = registered.tool, registered.name
        if not tool.shared and name not in agent.shared_tools:
            continue
        if why := share_refusal(tool):
            raise InvalidArgument(f"agent {agent.name}: cannot share {name!r}: {why}")
        if (refusal := agent.policy.refusal(name, dangerous=tool.dangerous)) is not None:
            _log.warning("agent %s does not share %s: %s", agent.name, name, refusal)
            continue
        yield SharedTool(
            tool_description(registered),
            partial(_execute, agent.engine, name),
            max_calls_per_minute=min(CALLS_PER_MINUTE, tool.rate or CALLS_PER_MINUTE),
            total_per_minute=tool.rate or TOTAL_PER_MINUTE,
            timeout=_timeout(agent, tool),
        )
    missing = sorted(agent.shared_tools - set(agent.tools.names))
    if missing:
        _log.warning("agent %s does not share %s: its source is not connected", agent.name, ", ".join(missing))


def _timeout(agent: Agent, tool: Tool) -> float:
    """Returns the seconds that a call of another agent may take, with all its attempts."""
    seconds = tool.timeout or agent.config.tool_timeout
    return min(MAX_SECONDS, seconds + MARGIN)


async def _execute(
    engine: ToolExecutionEngine, name: str, arguments: Mapping[str, Any], call: SharedToolCall
) -> SharedToolResult:
    loop = asyncio.get_running_loop()

    def report(text: str) -> None:
        loop.call_soon_threadsafe(call.report, text)  # a plain function reports from its thread

    with bind_progress(report):
        result = await engine.execute_tool_call(name, arguments, max(MARGIN, call.remaining - MARGIN))
    return _as_shared_result(result)


def _as_shared_result(result: ToolResult) -> SharedToolResult:
    metadata = {
        key: str(result.metadata[key]) for key in ("code", "reason", "kind", "attempts") if key in result.metadata
    }
    if result.status is ToolResultStatus.TIMEOUT:
        return SharedToolResult(None, SharedToolStatus.TIMEOUT, result.error_message, metadata=metadata)
    if not result.ok:
        return SharedToolResult(None, SharedToolStatus.ERROR, result.error_message, metadata=metadata)
    if any(True for _ in Media.among(result.content)):
        message = "the result has files, which a shared tool cannot return"
        return SharedToolResult(None, SharedToolStatus.ERROR, message, metadata=metadata)
    return SharedToolResult(result.content, metadata=metadata)
