"""Calls of tools: of roles, as runs; of shared tools, at their owners."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import mcp_types as types
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from archon.errors import InvalidArgument, NotFound
from archon.submission import RunOptions
from archon.types.run import Run
from archon_services.gateway.agents import MeshAgent
from archon_services.gateway.mcp.catalogue import Catalogue, OfferedTool
from archon_services.gateway.mcp.client_line import ClientLine
from archon_services.gateway.mcp.errors import error_result
from archon_services.gateway.mcp.follow_run import WAIT, followed
from archon_services.gateway.mcp.inputs import goal_of, session_of
from archon_services.gateway.mcp.parts import RoomParts
from archon_services.gateway.mcp.questions import answerable, give, request_of
from archon_services.gateway.mcp.results import is_failure_of_mesh, note, result_of, uri_of
from archon_services.gateway.mcp.tasks import created

TOOL: Final = "dev.archon/mcp-tool"
"""Metadata of a run that an MCP client has submitted: the tool that was called."""

AT_ONCE: Final = 0.5
"""Seconds for which the call of a client that takes tasks waits for a result, before it is a task."""


class Calls:
    """Serves `tools/call`."""

    def __init__(self, parts: RoomParts) -> None:
        self._parts = parts

    async def call(self, context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams) -> HandlerResult:
        """Calls a tool for the caller that is being served. A failure of the tool is a result."""
        line = ClientLine(context)
        if line.exchange is not None and line.exchange.run_id:  # the stream of the call was cut off
            with self._parts.access.held():
                return await self._outcome(line, await self._parts.access.runs.get(line.exchange.run_id))
        mesh = await self._parts.mesh_of_caller()
        tool = Catalogue(mesh).find(params.name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, f"unknown tool {params.name[:100]!r}")
        arguments = params.arguments or {}
        try:
            if tool.kind == "shared":
                with self._parts.access.held():
                    return await self._parts.lent.call(line, tool, arguments)
            with self._parts.access.held():
                if tool.kind == "read":
                    return await self._read(line, arguments)
                run = await self._run_of(mesh, tool, params)
                if params.request_state is not None:
                    line.skip(run.last_seq)
                return await self._outcome(line, run, params.input_responses or ())
        except InvalidArgument as error:  # the model can mend it, if it sees it
            return error_result(error)

    async def _run_of(self, mesh: MeshAgent, tool: OfferedTool, params: types.CallToolRequestParams) -> Run:
        """Returns the run of a call: a new one, or the one that an earlier round of the call has begun."""
        runs = self._parts.access.runs
        if params.request_state is None:
            return await self._submitted(mesh, tool, params.arguments or {})
        run = await runs.get(json.loads(params.request_state)["run"])
        for input_id, response in (params.input_responses or {}).items():
            given = response.model_dump(by_alias=True, mode="json", exclude_none=True)
            await give(runs, run, input_id, given)
        return await runs.get(run.run_id)

    async def _submitted(self, mesh: MeshAgent, tool: OfferedTool, arguments: Mapping[str, Any]) -> Run:
        runs = self._parts.access.runs
        template = next((agent.prompt_template for agent in mesh.roles if agent.name == tool.role), "")
        goal = goal_of(template, arguments)
        options = RunOptions(
            roles=[tool.role], strategy="agent", session_id=session_of(arguments), metadata={TOOL: tool.name}
        )
        if not tool.role:
            chosen = await runs.choose_strategy(goal)
            options["roles"], options["strategy"] = list(chosen.roles), chosen.strategy
        return (await runs.submit(goal, **options)).run

    async def _outcome(self, line: ClientLine, run: Run, given: Iterable[str] = ()) -> HandlerResult:
        """Returns the result of a run, a task for it, or the questions that it asks: not those that were `given` an
        answer, which end the run if that was none."""
        identity = self._parts.identity
        runs = self._parts.access.runs
        if line.exchange is not None:
            line.exchange.follow(run.run_id)
        end = asyncio.get_running_loop().time() + (AT_ONCE if line.takes_tasks else WAIT)
        asked = set(given)
        try:
            while True:
                left = end - asyncio.get_running_loop().time()
                run = await followed(runs, run, identity, left, line.tell, frozenset(asked))
                questions = [each for each in answerable(run, identity) if each.input_id not in asked]
                if run.state.final and not (line.takes_tasks and is_failure_of_mesh(run)):
                    return result_of(run)
                if line.takes_tasks:
                    return created(run)
                if not questions:
                    return note(_goes_on(run), run.run_id, is_error=False)
                if not all(map(line.asking.can, questions)):
                    return note(_cannot_ask(run), run.run_id)
                requests: dict[str, Any] = {
                    each.input_id: request_of(each, self._parts.addresses) for each in questions
                }
                if line.is_modern:
                    return types.InputRequiredResult(
                        input_requests=dict(requests), request_state=json.dumps({"run": run.run_id})
                    )
                for input_id, request in requests.items():
                    asked.add(input_id)
                    await self._ask(line, run, input_id, request)
        except asyncio.CancelledError:
            if line.was_cancelled:  # one that would be a task is not known to the client yet
                self._parts.cancel_later(run.run_id)
            raise

    async def _ask(self, line: ClientLine, run: Run, input_id: str, request: types.ElicitRequest) -> None:
        if line.exchange is None:
            return
        message = request.model_dump(by_alias=True, mode="json", exclude_none=True)
        await line.exchange.ask(message, f"{run.run_id}/{input_id}")

    async def _read(self, line: ClientLine, arguments: Mapping[str, Any]) -> types.CallToolResult:
        run_id, wait = arguments.get("run_id"), arguments.get("wait", 0)
        if not isinstance(run_id, str) or isinstance(wait, bool) or not isinstance(wait, int | float):
            raise InvalidArgument("the arguments are run_id, a text, and wait, a number of seconds")
        runs, identity = self._parts.access.runs, self._parts.identity
        try:
            run = await followed(
                runs, await runs.get(run_id), identity, max(0.0, min(float(wait), WAIT)), line.tell, frozenset()
            )
        except NotFound as error:
            return error_result(error)
        if run.state.final:
            return result_of(run)
        return note(_cannot_ask(run) if run.questions else _goes_on(run), run.run_id, is_error=False)


def _goes_on(run: Run) -> str:
    state = "is paused" if run.paused else "waits for a person" if run.questions else "goes on"
    return f"The run {run.run_id} {state}. Read it with the tool run_get, or as the resource {uri_of(run.run_id)}."


def _cannot_ask(run: Run) -> str:
    texts = "; ".join(f"{each.role} asks: {each.text}" for each in run.questions)
    return (
        f"The run {run.run_id} waits for a person, who cannot be asked here: {texts[:2_000]} Answer with "
        f"`archon respond {run.run_id}`, then read it with the tool run_get."
    )
