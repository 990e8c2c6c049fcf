"""Requests to the room over HTTP and gRPC: who makes them, and to which agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

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
from starlette.types import ASGIApp, Receive, Scope, Send

from archon.errors import ArchonError
from archon.wire import JSON_TYPE
from archon_services.gateway.a2a.a2a_errors import GRPC_CONTEXT
from archon_services.gateway.a2a.cards import CardPlace
from archon_services.gateway.a2a.handler import CALLER, PLACE, REFUSED, ROLE
from archon_services.gateway.failures import failure_response
from archon_services.gateway.mesh_access import MeshAccess

PlaceOf = Callable[[Scope], CardPlace]
"""Returns by which URL a request has reached the room."""


class Admission:
    """ASGI middleware: lets the caller in, and passes on requests whose body is JSON."""

    def __init__(self, app: ASGIApp, mesh: MeshAccess) -> None:
        self._app = app
        self._mesh = mesh

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request; answers it with the error if it is refused."""
        if scope["type"] != "http":
            return
        headers = Request(scope).headers
        try:
            scope[CALLER] = self._mesh.enter(headers)
        except ArchonError as error:
            await failure_response(error)(scope, receive, send)
            return
        if scope["method"] == "POST" and not _is_json(headers.get("content-type", "")):
            await _wrong_type(scope)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _is_json(content_type: str) -> bool:
    media_type = content_type.partition(";")[0].strip().lower()
    is_kind = media_type.startswith("application/") and media_type.endswith("+json")
    return not media_type or media_type == JSON_TYPE or is_kind


def _wrong_type(scope: Scope) -> JSONResponse:
    """Returns the response to a body of another type, in the form of the binding. A page of another site can send some
    types without asking."""
    error = ContentTypeNotSupportedError("a request has the header Content-Type: application/json")
    path: str = scope["path"]
    is_operation = "/message:" in path or "/tasks/" in path
    content = build_rest_error_payload(error) if is_operation else build_error_response(None, error)
    return JSONResponse(content, 400)


class HttpCalls(ServerCallContextBuilder):
    """The calls of requests that Admission has let in."""

    def __init__(self, place: PlaceOf) -> None:
        self._place = place

    def build(self, request: Request) -> ServerCallContext:
        """Returns the A2A library's view of an HTTP request: the caller, the role of its path, and the extensions that
        it asks for."""
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
