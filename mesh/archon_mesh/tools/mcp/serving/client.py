"""The MCP client whose request is answered: its progress bar, its log, its person, its model and its folders.

Tools, prompts and resources call these functions. A question travels in one of two ways: up to version 2025-11-25 of
the protocol the server sends a request and the handler waits; from 2026-07-28 the request of the client ends with the
questions (`input_required`), and the client sends it again with the answers. The handler is called again then and gets
the answers where it asked: its actions before it asks must bear repetition, as with `ask_person` in the mesh.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from archon.errors import FailedPrecondition, InvalidArgument, ResourceExhausted, UnknownFailure
from archon_mesh.tools.mcp.serving.client_requests import (
    CAPABILITIES,
    ClientRequest,
    CompletionRequest,
    FormRequest,
    RootsRequest,
    decoded,
    encoded,
)
from archon_mesh.tools.people.ask import is_resumable

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.server import ServerRequestContext

LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LEVELS: Final[tuple[LogLevel, ...]] = get_args(LogLevel)
"""Levels of log messages, the least severe first (RFC 5424)."""

MAX_LOG_BYTES: Final = 64 * 1024
"""Bytes of a log message for a client, as JSON."""

MAX_STATE_BYTES: Final = 64 * 1024
"""Bytes of the answers that a client keeps between two rounds of a request."""


class MissingClientCapability(FailedPrecondition):
    """The client lacks the capability that a request needs; `capability` is its name in the protocol."""

    def __init__(self, capability: str) -> None:
        self.capability = capability
        super().__init__(f"the MCP client does not declare the capability {capability!r}")


class InputRequired(BaseException):
    """Ends an attempt to answer a client with the questions to it. It is no error, and no handler for errors takes it
    for one."""

    def __init__(self, requests: Mapping[str, ClientRequest], state: str) -> None:
        super().__init__(", ".join(requests))
        self.requests = requests
        self.state = state

    def result(self) -> types.InputRequiredResult:
        """Returns the result that asks the client."""
        import mcp_types as types

        asked = {name: encoded(request) for name, request in self.requests.items()}
        return types.InputRequiredResult(input_requests=asked, request_state=self.state)


class ClientCall:
    """One request of a client. `level` is the least severe level of log messages that it gets, None for none."""

    def __init__(
        self,
        context: ServerRequestContext[Any],
        params: types.InputResponseRequestParams,
        level: LogLevel | None,
    ) -> None:
        self._context = context
        self._level = level
        self._responses: dict[str, Any] = dict(params.input_responses or {})
        self._earlier: dict[str, Any] = json.loads(params.request_state) if params.request_state else {}
        self._used: dict[str, Any] = {}

    @property
    def ends_to_ask(self) -> bool:
        """Whether the request ends to ask the client, which sends it again."""
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        return self._context.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def progress(self, done: float, total: float | None, message: str) -> None:
        """Reports progress, if the client wants to know it."""
        await self._context.session.report_progress(done, total, message or None)

    async def log(self, level: LogLevel, data: Any, logger: str) -> None:
        """Sends a log message, if the client gets messages of the level."""
        import mcp_types as types

        if self._level is None or LEVELS.index(level) < LEVELS.index(self._level):
            return
        params = types.LoggingMessageNotificationParams(level=level, data=data, logger=logger or None)
        await self._context.session.send_notification(
            types.LoggingMessageNotification(params=params), related_request_id=self._context.request_id
        )

    def can(self, request: type[ClientRequest]) -> bool:
        """Returns whether the client answers requests of a class."""
        capabilities = self._context.session.client_capabilities
        if capabilities is None:
            return False
        if request is FormRequest:
            offered = capabilities.elicitation
            return offered is not None and (offered.form is not None or offered.url is None)
        return (capabilities.sampling if request is CompletionRequest else capabilities.roots) is not None

    async def ask(self, requests: Mapping[str, ClientRequest]) -> dict[str, Any]:
        """Returns the answers by name. Raises the errors of `ask_client`, and InputRequired to end the attempt."""
        for request in requests.values():
            if not self.can(type(request)):
                raise MissingClientCapability(CAPABILITIES[type(request)])
        if not self.ends_to_ask:
            answers = await asyncio.gather(*(self._sent(request) for request in requests.values()))
            return dict(zip(requests, answers, strict=True))
        if not is_resumable():
            raise FailedPrecondition(
                "the MCP client cannot be asked from within a composite tool, which would begin anew"
            )
        found: dict[str, Any] = {}
        open_requests: dict[str, ClientRequest] = {}
        for name, request in requests.items():
            answer = self._answered(name, request)
            if answer is None:
                open_requests[name] = request
            else:
                found[name] = answer
        if open_requests:
            state = json.dumps(self._used)
            if len(state) > MAX_STATE_BYTES:
                raise ResourceExhausted(f"the answers so far are larger than {MAX_STATE_BYTES:,} bytes")
            raise InputRequired(open_requests, state)
        return found

    def _answered(self, name: str, request: ClientRequest) -> Any:
        """Returns the answer of this or of an earlier round, None if there is no valid one."""
        given = self._responses.get(name)
        raw = given.model_dump(by_alias=True, mode="json", exclude_none=True) if given else self._earlier.get(name)
        try:
            answer = None if raw is None else decoded(request, raw)
        except InvalidArgument:
            return None
        if answer is not None:
            self._used[name] = raw
        return answer

    async def _sent(self, request: ClientRequest) -> Any:
        """Sends a request to the client and returns its answer. Raises UnknownFailure if the client refuses."""
        import mcp_types as types
        from mcp.shared.exceptions import MCPError
        from mcp.shared.message import ServerMessageMetadata
        from pydantic import ValidationError

        kinds: dict[type[ClientRequest], type[types.Result]] = {
            FormRequest: types.ElicitResult,
            CompletionRequest: types.CreateMessageResult,
            RootsRequest: types.ListRootsResult,
        }
        metadata = ServerMessageMetadata(related_request_id=self._context.request_id)
        try:
            result = await self._context.session.send_request(encoded(request), kinds[type(request)], metadata=metadata)
        except (MCPError, ValidationError) as error:
            raise UnknownFailure(f"the MCP client does not answer: {error}") from None
        return decoded(request, result.model_dump(by_alias=True, mode="json", exclude_none=True))


_call: ContextVar[ClientCall | None] = ContextVar("archon_mcp_client_call", default=None)


@contextmanager
def bind_client(call: ClientCall) -> Iterator[None]:
    """Makes a client's request the one that the functions of this module are about within the block."""
    token = _call.set(call)
    try:
        yield
    finally:
        _call.reset(token)


async def report_progress(done: float, total: float | None = None, message: str = "") -> None:
    """Reports that `done` of `total` units are done; the unit is the caller's. Does nothing outside of a request of an
    MCP client, or if the client does not want to know it."""
    if (call := _call.get()) is not None:
        await call.progress(done, total, message)


async def log_to_client(level: LogLevel, data: Any, logger: str = "") -> None:
    """Sends a log message to the MCP client, a text or a JSON value, under the name of a `logger`. Does nothing outside
    of a request of an MCP client, or if the client gets no messages of the level.

    Raises InvalidArgument if the level is unknown, or if the message is not JSON or has more than MAX_LOG_BYTES.
    """
    if level not in LEVELS:
        raise InvalidArgument(f"invalid log level {level!r}: expected one of {', '.join(LEVELS)}")
    try:
        size = len(json.dumps(data))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"the log message is not a JSON value: {error}") from None
    if size > MAX_LOG_BYTES:
        raise InvalidArgument(f"the log message has {size:,} bytes; the limit is {MAX_LOG_BYTES:,}")
    if (call := _call.get()) is not None:
        await call.log(level, data, logger)


def client_can(request: type[ClientRequest]) -> bool:
    """Returns whether the MCP client answers requests of a class: FormRequest, CompletionRequest or RootsRequest. False
    outside of a request of an MCP client."""
    call = _call.get()
    return call is not None and call.can(request)


async def ask_client(requests: Mapping[str, ClientRequest]) -> dict[str, Any]:
    """Asks the MCP client for several things at once; returns the answers by the names of the requests: a FormAnswer, a
    text, or a tuple of Root. A name stands for one request within a call.

    Raises FailedPrecondition outside of a request of an MCP client, or within a composite tool if the request ends to
    ask; MissingClientCapability if the client lacks the capability for a request; InvalidArgument if an answer does not
    match its request; UnknownFailure if the client refuses; and ResourceExhausted if the answers so far are larger than
    MAX_STATE_BYTES.
    """
    call = _call.get()
    if call is None:
        raise FailedPrecondition("no MCP client can be asked here: its request must be in progress")
    return await call.ask(requests)
