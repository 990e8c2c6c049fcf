"""The methods of the extension for tasks: a client reads a task, answers its questions, and cancels it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types import HEADER_MISMATCH, INVALID_PARAMS

from archon.errors import RunExpired, UnknownRun
from archon.types.run import Run
from archon_services.gateway.mcp.client_line import ClientLine
from archon_services.gateway.mcp.errors import needs_tasks
from archon_services.gateway.mcp.parts import RoomParts
from archon_services.gateway.mcp.questions import give
from archon_services.gateway.mcp.tasks import detailed

CANCEL_WAIT: Final = 3.0
"""Seconds for which a cancellation waits for the end of the task."""

MAX_RESPONSES: Final = 100
"""Responses of one update."""


class TaskParams(types.RequestParams):
    """The parameters of `tasks/get` and `tasks/cancel`."""

    task_id: str


class UpdateParams(TaskParams):
    """The parameters of `tasks/update`: the responses by the keys of their requests."""

    input_responses: dict[str, Any]


class TaskHandlers:
    """Serves `tasks/get`, `tasks/update` and `tasks/cancel`."""

    def __init__(self, parts: RoomParts) -> None:
        self._parts = parts

    def add_to(self, server: Server[Any]) -> None:
        """Adds the handlers to a server."""
        server.add_request_handler("tasks/get", TaskParams, self._get)
        server.add_request_handler("tasks/update", UpdateParams, self._update)
        server.add_request_handler("tasks/cancel", TaskParams, self._cancel)

    async def _get(self, context: ServerRequestContext[Any], params: TaskParams) -> dict[str, Any]:
        return {
            "resultType": "complete",
            **detailed(await self._run(context, params), self._parts.identity, self._parts.addresses),
        }

    async def _update(self, context: ServerRequestContext[Any], params: UpdateParams) -> dict[str, Any]:
        run = await self._run(context, params)
        if len(params.input_responses) > MAX_RESPONSES:
            raise MCPError(INVALID_PARAMS, f"an update has at most {MAX_RESPONSES} responses")
        for input_id, response in params.input_responses.items():
            if isinstance(response, Mapping):
                await give(self._parts.access.runs, run, input_id, response)
        return {"resultType": "complete"}

    async def _cancel(self, context: ServerRequestContext[Any], params: TaskParams) -> dict[str, Any]:
        run = await self._run(context, params)
        if not run.state.final:
            await self._parts.access.runs.cancel(run.run_id, "cancelled by an MCP client")
            await self._parts.ended(run, CANCEL_WAIT)
        return {"resultType": "complete"}

    async def _run(self, context: ServerRequestContext[Any], params: TaskParams) -> Run:
        if not ClientLine(context).takes_tasks:
            raise needs_tasks()
        header = context.request.headers.get(MCP_NAME_HEADER) if context.request is not None else None
        if header is not None and decode_header_value(header) != params.task_id:
            raise MCPError(HEADER_MISMATCH, f"{MCP_NAME_HEADER} header does not match the request body's 'taskId'")
        return await task_run(self._parts, params.task_id)


async def task_run(parts: RoomParts, task_id: str) -> Run:
    """Returns the run of a task. Raises MCPError if there is none that the caller may see."""
    try:
        return await parts.access.runs.get(task_id)
    except (UnknownRun, RunExpired) as error:
        raise MCPError(INVALID_PARAMS, f"Task not found: {error}") from None
