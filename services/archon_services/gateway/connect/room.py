"""The room of the RPCs: `POST /PACKAGE.SERVICE/METHOD` over Connect, gRPC-Web and JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from connectrpc.server import ConnectASGIApplication
from starlette.datastructures import Headers
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from archon.wire import MAX_CHECKED_BYTES
from archon_services.gateway.connect.codecs import codecs
from archon_services.gateway.connect.endpoints import endpoints
from archon_services.gateway.connect.request_form import ANY, content_type, fault_of
from archon_services.gateway.descriptors import all_rpcs
from archon_services.gateway.failures import failure_response
from archon_services.gateway.room import Gateway


class RpcApplication(ConnectASGIApplication[Gateway]):
    """The Connect library's application over all RPCs that the gateway forwards."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(
            service=gateway,
            endpoints=endpoints,
            read_max_bytes=MAX_CHECKED_BYTES,
            codecs=codecs(),
        )

    @property
    def path(self) -> str:
        return "/"


class CheckedRpcs:
    """The application behind a check of the form of each request."""

    def __init__(self, gateway: Gateway) -> None:
        self._application: Any = RpcApplication(gateway)
        self._rpcs = {rpc.path: rpc for rpc in all_rpcs() if rpc.service in gateway.upstream.services}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = content_type(Headers(scope=scope))
        rpc = self._rpcs.get(scope["path"])
        fault = fault_of(rpc, scope["path"].rpartition("/")[2][:100], scope["method"], given)
        if fault is None:
            headers = [(name, value) for name, value in scope["headers"] if name != b"content-type"]
            plain = {**scope, "headers": [*headers, (b"content-type", given.encode())]}
            await self._application(plain, receive, send)
            return
        status, error = fault
        response = failure_response(error)
        response.status_code = status
        if status == 405:
            response.headers["allow"] = "POST"
        if status == 415:
            response.headers["accept-post"] = ", ".join(ANY)
        await response(scope, receive, send)


@asynccontextmanager
async def connect_room(gateway: Gateway) -> AsyncIterator[Sequence[BaseRoute]]:
    """Serves the RPCs at `/archon.api...Service/Method`."""
    application: Any = CheckedRpcs(gateway)
    yield [Route(f"/{service}/{{method}}", application) for service in gateway.upstream.services]
