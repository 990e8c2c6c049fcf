"""The requests to the room of AG-UI: runs of an agent, its capabilities, and the end of a thread's runs."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from archon.errors import (
    ArchonError,
    FailedPrecondition,
    InterruptsPending,
    InvalidArgument,
    UnknownInterrupt,
    UnknownRole,
)
from archon.wire import JSON_TYPE
from archon_services.gateway.agents import AgentDirectory, MeshAgent
from archon_services.gateway.agui.capabilities import capabilities_of
from archon_services.gateway.agui.inputs import MAX_ID, read_input
from archon_services.gateway.agui.runs import AgentRuns, RunPart
from archon_services.gateway.agui.stream import RunStream, error_frame
from archon_services.gateway.callers import Callers
from archon_services.gateway.events.frames import resume_after

_log = logging.getLogger(__name__)

STREAM: Final = "text/event-stream"

_OF_INTERRUPTS: Final = (UnknownInterrupt, FailedPrecondition, InvalidArgument)
"""Errors of a resume, or of an input that should be one."""

CANCEL_WITHIN: Final = 15.0
"""Seconds in which the run of a front end that has gone is cancelled."""


class RunRoute:
    """Runs an agent: answers with the events of the run until it ends, or asks people."""

    def __init__(self, callers: Callers, directory: AgentDirectory, stop: asyncio.Event) -> None:
        self._callers, self._directory, self._stop = callers, directory, stop
        self._cancelling: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        caller = self._callers.enter(request.headers)
        if not _is_json(request.headers.get("content-type", "")):
            raise InvalidArgument("a request has the header Content-Type: application/json")
        after = resume_after(request.headers, {})
        source = read_input(await request.body())
        runs = AgentRuns(self._callers.runs, self._directory, _role(request), caller.tenant)
        with self._callers.held():
            try:
                part = await runs.open(source)
            except _OF_INTERRUPTS as error:
                if not source.resume and not isinstance(error, InterruptsPending):
                    raise
                # The protocol has these be events: https://docs.ag-ui.com/concepts/interrupts#error-handling
                await Response(error_frame(error), media_type=STREAM)(scope, receive, send)
                return
            stream = RunStream(self._callers.runs, source, part, self._stop, after)
            try:
                await StreamingResponse(stream.pieces(), media_type=STREAM)(scope, receive, send)
            finally:
                if part.ends_with_stream and not stream.complete and not self._stop.is_set():
                    self._cancel(part)

    def _cancel(self, part: RunPart) -> None:
        """Cancels a run in a task of its own, because the request's is being cancelled."""
        task = asyncio.create_task(self._cancel_run(part.run.run_id), name=f"cancel {part.run.run_id}")
        self._cancelling.add(task)
        task.add_done_callback(self._cancelling.discard)

    async def _cancel_run(self, run_id: str) -> None:
        try:
            async with asyncio.timeout(CANCEL_WITHIN):
                await self._callers.runs.cancel(run_id, "the front end has closed the stream")
        except (ArchonError, TimeoutError) as error:
            _log.warning(
                "run %s of a front end that has gone is not cancelled: %s", run_id, error, extra={"run_id": run_id}
            )

    async def close(self) -> None:
        """Waits for cancellations in progress."""
        if self._cancelling:
            await asyncio.wait(self._cancelling)


class AgentRoutes:
    """Describes an agent, and stops the runs of a thread."""

    def __init__(self, callers: Callers, directory: AgentDirectory) -> None:
        self._callers, self._directory = callers, directory

    async def describe(self, request: Request) -> Response:
        """Answers with the capabilities of an agent."""
        caller = self._callers.enter(request.headers)
        role = _role(request)
        agent: MeshAgent | None = await self._directory.find(role, caller.tenant)
        if agent is None:
            raise UnknownRole(f"no instance of the role {role[:100]!r} is live", metadata={"role": role[:100]})
        return JSONResponse(capabilities_of(agent))

    async def stop(self, request: Request) -> Response:
        """Cancels the unfinished runs of a thread."""
        caller = self._callers.enter(request.headers)
        runs = AgentRuns(self._callers.runs, self._directory, _role(request), caller.tenant)
        return JSONResponse({"stopped": await runs.stop(request.path_params["thread"][:MAX_ID])})


def _role(request: Request) -> str:
    return str(request.path_params.get("role", ""))


def _is_json(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == JSON_TYPE
