"""Calls that an MCP server answers with a task (the extension `io.modelcontextprotocol/tasks`): it is polled until
it has ended, its questions are answered as for any call, and it is cancelled at the server if the call is.

Import it only if the package `mcp` is installed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal

import mcp_types as types
from mcp.client.context import ClientRequestContext
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel
from typing_extensions import override

_log = logging.getLogger(__name__)

POLL: Final = 1.0
MIN_POLL: Final = 0.1
MAX_POLL: Final = 30.0
"""Seconds between two looks at a task, unless the server says something else, within these bounds."""

CANCEL_SECONDS: Final = 5.0
"""Seconds that a server has to take the cancellation of a task."""

MAX_REQUESTS: Final = 20
"""Requests of a task that are answered at once."""


class TaskResult(types.Result):
    """A task in place of the result of a call."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")

    result_type: Literal["task"] = "task"
    task_id: str
    poll_interval_ms: int | None = None


class TaskParams(types.RequestParams):
    """The task of a request."""

    task_id: str


class UpdateParams(TaskParams):
    """The answers for a task, by the keys of its requests."""

    input_responses: dict[str, Any]


class GetTask(types.Request[TaskParams, Literal["tasks/get"]]):
    """The request for the state of a task: its `status`, and its result, error or open requests."""

    method: Literal["tasks/get"] = "tasks/get"
    name_param = "taskId"


class UpdateTask(types.Request[UpdateParams, Literal["tasks/update"]]):
    """The request that delivers answers to the open requests of a task."""

    method: Literal["tasks/update"] = "tasks/update"
    name_param = "taskId"


class CancelTask(types.Request[TaskParams, Literal["tasks/cancel"]]):
    """The request to cancel a task; the server may let it end otherwise."""

    method: Literal["tasks/cancel"] = "tasks/cancel"
    name_param = "taskId"


_STATE: Final[Any] = TypeAdapter(dict[str, Any])
_REQUEST: Final[TypeAdapter[types.InputRequest]] = TypeAdapter(types.InputRequest)


class ServerTasks(ClientExtension):
    """Takes tasks of a server, and returns their results as results of the calls. `sleep` waits between two looks."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        self._sleep = sleep

    @override
    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (ResultClaim(result_type="task", model=TaskResult, resolve=self._resolve),)

    async def _resolve(self, created: TaskResult, context: ClaimContext) -> types.CallToolResult:
        task = _Task(context.session, created.task_id, context.read_timeout_seconds)
        pause = created.poll_interval_ms
        try:
            while True:
                await self._sleep(min(MAX_POLL, max(MIN_POLL, POLL if pause is None else pause / 1000)))
                state = await task.read()
                if (result := _result(state)) is not None:
                    return result
                await task.answer(state.get("inputRequests"))
                interval = state.get("pollIntervalMs")
                pause = interval if isinstance(interval, int) and not isinstance(interval, bool) else None
        except BaseException as error:
            if not isinstance(error, _Ended):
                await task.cancel()
            raise


class _Ended(MCPError):
    """The task has ended without a result."""


class _Task:
    """One task of a server. The answered requests are remembered: a request is shown again until its answer arrives."""

    def __init__(self, session: ClientSession, task_id: str, seconds: float | None) -> None:
        self._session, self._id, self._seconds = session, task_id, seconds
        self._answered: set[str] = set()

    async def read(self) -> dict[str, Any]:
        """Returns the state of the task. Raises MCPError if the server refuses, or does not answer in time."""
        request = GetTask(params=TaskParams(task_id=self._id))
        state: dict[str, Any] = await self._session.send_request(request, _STATE, self._seconds)
        return state

    async def answer(self, requests: object) -> None:
        """Answers the requests of the task that are new. Raises MCPError if the client does not answer one."""
        if not isinstance(requests, Mapping):
            return
        responses: dict[str, Any] = {}
        for key, raw in list(requests.items())[:MAX_REQUESTS]:
            if not isinstance(key, str) or key in self._answered:
                continue
            try:
                request = _REQUEST.validate_python(raw, by_name=False)
            except ValidationError:
                raise MCPError(INTERNAL_ERROR, "a task asks in a way that is not of the protocol") from None
            context = ClientRequestContext(session=self._session, request_id=key, meta=None)
            response = await self._session.dispatch_input_request(context, request)
            if isinstance(response, types.ErrorData):
                raise MCPError.from_error_data(response)
            responses[key] = response.model_dump(by_alias=True, mode="json", exclude_none=True)
        if responses:
            update = UpdateTask(params=UpdateParams(task_id=self._id, input_responses=responses))
            await self._session.send_request(update, _STATE, self._seconds)
            self._answered.update(responses)

    async def cancel(self) -> None:
        """Asks the server to cancel the task, also while this call is being cancelled."""
        request = CancelTask(params=TaskParams(task_id=self._id))
        sending = asyncio.ensure_future(self._session.send_request(request, _STATE, CANCEL_SECONDS))
        done, _ = await asyncio.wait({sending}, timeout=CANCEL_SECONDS)
        if not done:
            sending.cancel()
        elif not sending.cancelled() and (error := sending.exception()) is not None:
            _log.debug("the task %.100s was not cancelled at the server: %s", self._id, error)


def _result(state: Mapping[str, Any]) -> types.CallToolResult | None:
    """Returns the result of a task that is completed, None while it goes on. Raises _Ended if it has none."""
    match state.get("status"):
        case "completed":
            raw = state.get("result")
            content = {"content": [], **raw} if isinstance(raw, Mapping) else {"content": []}
            return types.CallToolResult.model_validate(content, by_name=False)
        case "failed":
            error = state.get("error")
            message = error.get("message") if isinstance(error, Mapping) else None
            raise _Ended(INTERNAL_ERROR, str(message or state.get("statusMessage") or "the task has failed")[:4_000])
        case "cancelled":
            raise _Ended(INTERNAL_ERROR, "the task was cancelled at the server")
    return None
