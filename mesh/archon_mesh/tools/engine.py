"""Executes tool calls: finds the tool, checks the arguments, limits the time, and turns errors into results."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any, Final

from archon.errors import ArchonError, InvalidArgument
from archon.failure_kinds import INVALID_PARAMETERS, TOOL_CRASH, TOOL_TIMEOUT
from archon_mesh.tools.registry import ToolRegistry
from archon_mesh.tools.result import ToolResult
from archon_mesh.tools.tool import Tool, as_result

_log = logging.getLogger(__name__)

TIMEOUT: Final = 60.0
"""Seconds that a call may take if neither the caller nor the tool sets a timeout."""


class ToolExecutionEngine:
    """Executes the tools of a registry. `timeout` is in seconds, for tools without a timeout of their own."""

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
        """Returns the result of a call. Never raises, except if the caller is cancelled.

        `arguments` is a mapping, or a JSON object as text. If the tool raised an exception, the result's `metadata` has
        it as `error`, and the kind of the failure as `kind`.
        """
        try:
            tool = self.registry.get_tool(tool_name)
            kwargs = tool.validate_args(parse_arguments(arguments))
        except ArchonError as error:
            return ToolResult.error(str(error), error=error, kind=INVALID_PARAMETERS)
        seconds = timeout_seconds if timeout_seconds is not None else tool.timeout or self._timeout
        if tool.wants_state:
            kwargs["agent_state"] = agent_state
        return await self._run(tool, kwargs, seconds)

    async def _run(self, tool: Tool, kwargs: dict[str, Any], seconds: float) -> ToolResult:
        try:
            async with asyncio.timeout(seconds) as time_limit:
                return as_result(await tool.execute(**kwargs))
        except TimeoutError as error:
            if time_limit.expired():
                return ToolResult.timeout(seconds, error=error, kind=TOOL_TIMEOUT)
            return _failure(tool, error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a tool may raise anything
            return _failure(tool, error)


def parse_arguments(arguments: Mapping[str, Any] | str | None) -> Mapping[str, Any]:
    """Returns the arguments as a mapping. Raises InvalidArgument if they are not a JSON object."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError) as error:
            raise InvalidArgument(f"invalid arguments: not JSON: {error}") from None
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise InvalidArgument(f"invalid arguments: expected a JSON object, got {type(arguments).__name__}")
    return arguments


def _failure(tool: Tool, error: BaseException) -> ToolResult:
    _log.warning("tool %s failed: %s: %s", tool.name, type(error).__name__, error)
    message = str(error) if isinstance(error, ArchonError) else f"{type(error).__name__}: {error}"
    return ToolResult.error(message, error=error, kind=TOOL_CRASH)
