"""Requests of clients of revisions before 2026-07-28: sessions, answers to questions, and streams that are resumed."""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.runner import serve_one
from mcp.server.streamable_http import check_accept_headers
from mcp.shared.dispatcher import Outbound
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params, progress_token_from_params
from mcp_types import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, jsonrpc_message_adapter
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from archon.errors import NotFound
from archon_mesh.tools.mcp.serving.client import LogLevel
from archon_services.common.sealing import Sealer
from archon_services.gateway.mcp.catalogue import READ
from archon_services.gateway.mcp.exchange import Cursor, Exchange, enter_exchange
from archon_services.gateway.mcp.parts import RoomParts
from archon_services.gateway.mcp.questions import give
from archon_services.gateway.mcp.sessions import ClientSession, opened, session_id
from archon_services.gateway.mcp.streams import answer_exchange, json_response

_log = logging.getLogger(__name__)

SESSION: Final = "mcp-session-id"
VERSION: Final = "mcp-protocol-version"
LAST_EVENT: Final = "last-event-id"

MAX_LEVELS: Final = 1_024
"""Sessions whose level of log messages this replica remembers."""

Watch = Callable[[Exchange], Awaitable[dict[str, Any]]]
"""Tells a client about changes of the lists, until it goes away."""


class Handshake:
    """An ASGI application for such clients. The caller has been let in."""

    def __init__(self, server: Server[Any], parts: RoomParts, sealer: Sealer, watch: Watch) -> None:
        self._server, self._parts, self._sealer = server, parts, sealer
        self._watch = watch
        self._levels: OrderedDict[str, LogLevel] = OrderedDict()
        self._open: dict[tuple[str, Any], Exchange] = {}
        """The requests in progress, by the nonces of their sessions and their ids."""
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request. Raises NotFound for a session that there is not, as a 404 says it."""
        request = Request(scope, receive)
        if request.method == "DELETE":
            # A session that is its own id cannot be ended: the protocol has this status for it.
            await Response(status_code=405, headers={"Allow": "GET, POST"})(scope, receive, send)
        elif request.method == "GET":
            await self._listen(request, receive, send)
        else:
            await self._post(request, receive, send)

    def _session(self, request: Request) -> ClientSession:
        sealed = request.headers.get(SESSION)
        session = opened(self._sealer, self._parts.access.visitor, sealed) if sealed is not None else ClientSession()
        session.level = self._levels.get(session.nonce, "info")
        session.version = request.headers.get(VERSION, session.version)
        return session

    async def _post(self, request: Request, receive: Receive, send: Send) -> None:
        has_json, has_sse = check_accept_headers(request)
        if not has_json and request.headers.get("accept"):
            await Response(status_code=406)(request.scope, receive, send)
            return
        try:
            decoded = json.loads(await request.body())
            message = jsonrpc_message_adapter.validate_python(decoded, by_name=False)
        except ValidationError:
            await _refuse(INVALID_REQUEST, "the body is one message of JSON-RPC", request, receive, send)
            return
        except (ValueError, RecursionError):
            await _refuse(PARSE_ERROR, "Parse error", request, receive, send)
            return
        if not isinstance(message, types.JSONRPCRequest):
            session = self._session(request)
            if isinstance(message, types.JSONRPCNotification):
                self._notified(session, message)
            else:
                await self._answered(message)
            await Response(status_code=202)(request.scope, receive, send)
            return
        if message.method == "initialize":
            await self._begin(request, message, receive, send)
            return
        exchange = Exchange(request, message.id, self._session(request), progress_token_from_params(message.params))
        handler = self._handled(exchange, message)
        await self._answer(exchange, handler, receive, send, streams=has_sse)

    async def _answer(self, exchange: Exchange, handler: Any, receive: Receive, send: Send, *, streams: bool) -> None:
        key = exchange.session.nonce, exchange.request_id
        self._open[key] = exchange
        try:
            await answer_exchange(exchange, handler, receive, send, streams=streams)
        finally:
            self._open.pop(key, None)

    async def _handled(self, exchange: Exchange, message: types.JSONRPCRequest) -> dict[str, Any]:
        enter_exchange(exchange)
        session = exchange.session
        connection = Connection.from_envelope(session.version, None, session.capabilities, outbound=_Silent())
        params = dict(message.params) if message.params is not None else None
        return await serve_one(self._server, exchange, message.method, params, connection=connection, lifespan_state={})

    async def _begin(self, request: Request, message: types.JSONRPCRequest, receive: Receive, send: Send) -> None:
        """Begins a session: its id is its content."""
        connection = Connection.for_loop(_Silent())
        exchange = Exchange(request, message.id, ClientSession())
        params = dict(message.params) if message.params is not None else None
        try:
            result = await serve_one(
                self._server, exchange, "initialize", params, connection=connection, lifespan_state={}
            )
        except ValidationError:
            await _refuse(INVALID_PARAMS, "Invalid request parameters", request, receive, send, message.id)
            return
        capabilities = connection.client_capabilities
        session = ClientSession(
            version=connection.protocol_version,
            capabilities=capabilities.model_dump(by_alias=True, mode="json", exclude_none=True) if capabilities else {},
        )
        headers = {SESSION: session_id(self._sealer, self._parts.access.visitor, session)}
        answer = {"jsonrpc": "2.0", "id": message.id, "result": result}
        await json_response(answer, headers=headers)(request.scope, receive, send)

    async def _listen(self, request: Request, receive: Receive, send: Send) -> None:
        """Opens a stream of the server's own messages, or the rest of a call's stream."""
        if not check_accept_headers(request)[1]:
            await Response(status_code=406)(request.scope, receive, send)
            return
        session = self._session(request)
        cursor = Cursor.read(request.headers.get(LAST_EVENT, ""))
        if cursor is None:
            exchange = Exchange(request, "", session)
            await self._answer(exchange, self._watched(exchange), receive, send, streams=True)
            return
        exchange = Exchange(request, cursor.request_id, session, cursor.token, run_id=cursor.run_id, seq=cursor.seq)
        call = types.JSONRPCRequest(jsonrpc="2.0", id=cursor.request_id, method="tools/call", params={"name": READ})
        await self._answer(exchange, self._handled(exchange, call), receive, send, streams=True)

    async def _watched(self, exchange: Exchange) -> dict[str, Any]:
        enter_exchange(exchange)
        return await self._watch(exchange)

    def _notified(self, session: ClientSession, message: types.JSONRPCNotification) -> None:
        if message.method == "notifications/cancelled":
            exchange = self._open.get((session.nonce, cancelled_request_id_from_params(message.params)))
            if exchange is not None:
                exchange.cancel()

    async def _answered(self, message: types.JSONRPCResponse | types.JSONRPCError) -> None:
        """Takes the answer to a question. Its id names the run and the question. Raises InvalidArgument if it does not
        match, as a 400 says it."""
        run_id, _, input_id = str(message.id).partition("/")
        if not input_id:
            return
        runs = self._parts.access.runs
        run = await runs.get(run_id)
        response: Mapping[str, Any] = (
            {"action": "cancel"} if isinstance(message, types.JSONRPCError) else message.result
        )
        await give(runs, run, input_id, response)

    async def _set_level(
        self, context: ServerRequestContext[Any], params: types.SetLevelRequestParams
    ) -> types.EmptyResult:
        request = context.request
        if isinstance(request, Request):
            self._levels[self._session(request).nonce] = params.level
            while len(self._levels) > MAX_LEVELS:
                self._levels.popitem(last=False)
        return types.EmptyResult()


async def _refuse(code: int, text: str, request: Request, receive: Receive, send: Send, request_id: Any = None) -> None:
    message = {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": text}}
    await json_response(message, 400)(request.scope, receive, send)


class _Silent(Outbound):
    """The channel of a connection that has none: messages go out on the streams of requests."""

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> None:
        """Drops a notification."""

    async def send_raw_request(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> dict[str, Any]:
        """Raises NotFound: there is no client to ask."""
        raise NotFound("the client cannot be asked without a request of its own")
