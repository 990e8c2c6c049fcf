"""Carries tool calls out: looks the tool up, checks the arguments, bounds the time, and lets no error out."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any, Final

from archon.errors import ArchonError, InvalidArgument
from archon_mesh.tools.registry import ToolRegistry
from archon_mesh.tools.result import ToolResult
from archon_mesh.tools.tool import Tool, as_result

_log = logging.getLogger(__name__)

TIMEOUT: Final = 60.0
"""Seconds that a call may take where neither caller nor tool says otherwise."""


class ToolExecutionEngine:
    """`timeout` in seconds, for tools that have none of their own."""

    def __init__(self, registry: ToolRegistry, *, timeout: float = TIMEOUT) -> None:
        self.registry = registry
        self._timeout = timeout

    async def execute_tool_call(
        self,
        tool_name: str,
        arguments: Mapping[str, Any] | str | None = None,
        timeout_seconds: float | None = None,
        *,
        agent_state: object = None,
    ) -> ToolResult:
        """`arguments` as a mapping, or as the JSON object that a model wrote. What goes wrong is in the result, never
        raised; only cancelling gets through. `metadata` of a failed result has `error`, the exception, if there was
        one."""
        try:
            tool = self.registry.get_tool(tool_name)
            given = tool.validate_args(parsed(arguments))
        except ArchonError as error:
            return ToolResult.error(str(error), error=error)
        seconds = timeout_seconds if timeout_seconds is not None else tool.timeout or self._timeout
        if tool.wants_state:
            given["agent_state"] = agent_state
        return await self._run(tool, given, seconds)

    async def _run(self, tool: Tool, given: dict[str, Any], seconds: float) -> ToolResult:
        try:
            async with asyncio.timeout(seconds) as bound:
                return as_result(await tool.execute(**given))
        except TimeoutError as error:
            if bound.expired():
                return ToolResult.timeout(seconds, error=error)
            return _failed(tool, error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a tool may raise what it likes
            return _failed(tool, error)


def parsed(arguments: Mapping[str, Any] | str | None) -> Mapping[str, Any]:
    """Raises InvalidArgument where it is no JSON object."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError) as error:
            raise InvalidArgument(f"the arguments are no JSON: {error}") from None
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise InvalidArgument(f"the arguments are {type(arguments).__name__}, a JSON object is wanted")
    return arguments


def _failed(tool: Tool, error: BaseException) -> ToolResult:
    _log.warning("tool %s failed: %s: %s", tool.name, type(error).__name__, error)
    said = str(error) if isinstance(error, ArchonError) else f"{type(error).__name__}: {error}"
    return ToolResult.error(said, error=error)
