"""Requests to the room over HTTP and gRPC: who makes them, to which agent, and how large they may be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import grpc.aio
from a2a.extensions.common import HTTP_EXTENSION_HEADER, get_requested_extensions
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.grpc_handler import GrpcServerCallContextBuilder
from a2a.server.request_handlers.response_helpers import build_error_response
from a2a.server.routes.common import ServerCallContextBuilder
from a2a.utils.error_handlers import build_rest_error_payload
from a2a.utils.errors import ContentTypeNotSupportedError
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from archon.errors import ArchonError, DeadlineExceeded, ResourceExhausted
from archon.wire import JSON_TYPE
from archon_services.gateway.a2a.cards import CardPlace
from archon_services.gateway.a2a.handler import CALLER, PLACE, REFUSED, ROLE
from archon_services.gateway.a2a.mesh_access import MeshAccess
from archon_services.gateway.a2a.refusals import GRPC_CONTEXT
from archon_services.gateway.failures import failure_response

MAX_BODY: Final = 8 * 1024 * 1024
"""Bytes of the body of a request: a goal of 4 MiB as base64, and its envelope."""

BODY_SECONDS: Final = 30.0
"""Seconds in which the body of a request must arrive."""

PlaceOf = Callable[[Scope], CardPlace]
"""Returns by which URL a request has reached the room."""


class Admission:
    """ASGI middleware: lets the caller in, reads the body, and only then passes the request on."""

    def __init__(self, app: ASGIApp, mesh: MeshAccess) -> None:
        self._app = app
        self._mesh = mesh

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request; answers it with the error if it is refused."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Request(scope).headers
        try:
            scope[CALLER] = self._mesh.enter(headers)
            if scope["method"] == "POST" and not _is_json(headers.get("content-type", "")):
                await _wrong_type(scope)(scope, receive, send)
                return
            body = await _body(receive)
        except ArchonError as error:
            await failure_response(error)(scope, receive, send)
            return
        except ConnectionError:
            return
        given = False

        async def replay() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, send)


def _is_json(content_type: str) -> bool:
    media_type = content_type.partition(";")[0].strip().lower()
    return not media_type or media_type == JSON_TYPE or (media_type[:12] == "application/" and media_type[-5:] == "+json")


def _wrong_type(scope: Scope) -> JSONResponse:
    """Returns the response to a body of another type, in the form of the binding. A page of another site can send one of
    these types without asking."""
    error = ContentTypeNotSupportedError("a request has the header Content-Type: application/json")
    is_operation = scope["path"].rstrip("/").rpartition("/")[2].startswith(("message:", "tasks")) or "/tasks/" in scope["path"]
    content = build_rest_error_payload(error) if is_operation else build_error_response(None, error)
    return JSONResponse(content, 415)


async def _body(receive: Receive) -> bytes:
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ConnectionError("the caller has gone")
                piece = message.get("body", b"")
                size += len(piece)
                if size > MAX_BODY:
                    raise ResourceExhausted(f"the body has more than {MAX_BODY:,} bytes", reason="MESSAGE_TOO_LARGE")
                pieces.append(piece)
                if not message.get("more_body", False):
                    return b"".join(pieces)
    except TimeoutError:
        raise DeadlineExceeded(f"the body did not arrive within {BODY_SECONDS:g} s") from None


class HttpCalls(ServerCallContextBuilder):
    """The calls of requests that Admission has let in."""

    def __init__(self, place: PlaceOf) -> None:
        self._place = place

    def build(self, request: Request) -> ServerCallContext:
        """Returns the call that a request makes."""
        state: dict[str, Any] = {
            "headers": dict(request.headers),
            CALLER: request.scope.get(CALLER),
            ROLE: request.path_params.get("role", ""),
            PLACE: self._place(request.scope),
        }
        extensions = get_requested_extensions(request.headers.getlist(HTTP_EXTENSION_HEADER))
        return ServerCallContext(state=state, requested_extensions=extensions)


class GrpcCalls(GrpcServerCallContextBuilder):
    """The calls of gRPC, whose callers are let in here."""

    def __init__(self, mesh: MeshAccess) -> None:
        self._mesh = mesh
        self.place = CardPlace("")
        """How others reach the room; known once the server of gRPC has a port."""

    def build(self, context: grpc.aio.ServicerContext) -> ServerCallContext:  # type: ignore[type-arg]
        """Returns the call; one that is refused fails when it is served."""
        headers = _texts(context.invocation_metadata() or ())
        state: dict[str, Any] = {GRPC_CONTEXT: context, "headers": headers, ROLE: "", PLACE: self.place}
        try:
            state[CALLER] = self._mesh.enter(headers)
        except ArchonError as error:
            state[REFUSED] = error
        extensions = get_requested_extensions([headers.get(HTTP_EXTENSION_HEADER.lower(), "")])
        return ServerCallContext(state=state, requested_extensions=extensions)


def _texts(metadata: Any) -> Mapping[str, str]:
    return {key.lower(): value for key, value in metadata if isinstance(value, str)}
