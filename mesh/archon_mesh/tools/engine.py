"""Executes tool calls: finds the tool, checks the arguments, limits the time, and turns errors into results."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from archon.errors import ArchonError, DeadlineExceeded, InvalidArgument
from archon.failure_kinds import INVALID_PARAMETERS, TOOL_CRASH, TOOL_TIMEOUT
from archon_mesh.tools.errors import UnknownTool
from archon_mesh.tools.failures import failed, failure_metadata, failure_of_kind
from archon_mesh.tools.registry import ToolRegistry
from archon_mesh.tools.result import ToolOutcome, ToolResult, ToolResultStatus, as_result
from archon_mesh.tools.tool import Tool

_log = logging.getLogger(__name__)

TIMEOUT: Final = 30.0
"""Seconds that a call may take if neither the caller nor the tool sets a timeout."""


@dataclass(slots=True)
class _Call:
    """What is measured of one call."""

    name: str
    version: str = ""
    attempts: int = 0
    seconds: float = 0.0
    validation_seconds: float = 0.0


class ToolExecutionEngine:
    """Executes the tools of a registry. `timeout` is in seconds, for tools without a timeout of their own."""

    def __init__(
        self, registry: ToolRegistry, *, timeout: float = TIMEOUT, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.registry = registry
        self._timeout = timeout
        self._clock = clock

    async def execute_tool_call(
        self,
        tool_name: str,
        arguments: Mapping[str, Any] | str | None = None,
        timeout_seconds: float | None = None,
        *,
        agent_state: object = None,
    ) -> ToolResult:
        """Returns the result of a call. Never raises, except if the caller is cancelled.

        `arguments` is a mapping, or a JSON object as text.
        """
        return (await self.run(tool_name, arguments, timeout_seconds, agent_state=agent_state)).result

    async def run(
        self,
        tool_name: str,
        arguments: Mapping[str, Any] | str | None = None,
        timeout_seconds: float | None = None,
        *,
        agent_state: object = None,
    ) -> ToolOutcome:
        """Returns the result of a call together with the exception behind it, for code of the same process. Never
        raises, except if the caller is cancelled."""
        call = _Call(tool_name)
        registration = self.registry.find(tool_name)
        if registration is None:
            return _described(failed(UnknownTool(tool_name, self.registry.names)), call)
        tool = registration.tool
        call.name, call.version = registration.name, tool.version
        started = self._clock()
        try:
            kwargs = tool.convert_args(parse_arguments(arguments))
        except ArchonError as error:
            return _described(failed(error), call)
        except Exception as error:  # noqa: BLE001 - a tool may raise anything
            return _described(_failure(tool, error), call)
        finally:
            call.validation_seconds = self._clock() - started
        if tool.wants_state:
            kwargs["agent_state"] = agent_state
        seconds = timeout_seconds if timeout_seconds is not None else tool.timeout or self._timeout
        return _described(await self._attempt(tool, kwargs, seconds, call), call)

    async def _attempt(self, tool: Tool, kwargs: dict[str, Any], seconds: float, call: _Call) -> ToolOutcome:
        call.attempts += 1
        started = self._clock()
        try:
            async with asyncio.timeout(seconds) as time_limit:
                return ToolOutcome(as_result(await tool.execute(**kwargs)))
        except TimeoutError as error:
            if time_limit.expired():
                timeout = DeadlineExceeded(f"no answer within {seconds:g} s", kind=TOOL_TIMEOUT)
                return failed(timeout, ToolResultStatus.TIMEOUT)
            return _failure(tool, error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a tool may raise anything
            return _failure(tool, error)
        finally:
            call.seconds += self._clock() - started


def parse_arguments(arguments: Mapping[str, Any] | str | None) -> Mapping[str, Any]:
    """Returns the arguments as a mapping. Raises InvalidArgument if they are not a JSON object."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError) as error:
            raise InvalidArgument(f"invalid arguments: not JSON: {error}", kind=INVALID_PARAMETERS) from None
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        expected = f"invalid arguments: expected a JSON object, got {type(arguments).__name__}"
        raise InvalidArgument(expected, kind=INVALID_PARAMETERS)
    return arguments


def _failure(tool: Tool, error: BaseException) -> ToolOutcome:
    _log.warning("tool %s failed: %s: %s", tool.name, type(error).__name__, error)
    return failed(error)


def _described(outcome: ToolOutcome, call: _Call) -> ToolOutcome:
    """Adds to the metadata of the result what is always there."""
    result = outcome.result
    metadata = dict(result.metadata)
    if not result.ok and "kind" not in metadata:
        kind = TOOL_TIMEOUT if result.status is ToolResultStatus.TIMEOUT else TOOL_CRASH
        metadata = {**failure_metadata(failure_of_kind(kind)), **metadata}
    metadata["tool_name"] = call.name
    metadata["tool_version"] = call.version
    metadata["execution_time_ms"] = round(call.seconds * 1000, 3)
    metadata["validation_time_ms"] = round(call.validation_seconds * 1000, 3)
    metadata["attempts"] = call.attempts
    return ToolOutcome(replace(result, metadata=metadata), outcome.error)
