"""The room of the RPCs: `POST /PACKAGE.SERVICE/METHOD` over Connect, gRPC-Web and JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from connectrpc.compat import google_protobuf_codecs
from connectrpc.server import ConnectASGIApplication
from starlette.routing import BaseRoute, Route

from archon.wire import MAX_CHECKED_BYTES
from archon_services.gateway.connect.endpoints import endpoints
from archon_services.gateway.room import Gateway


class RpcApplication(ConnectASGIApplication[Gateway]):
    """The Connect library's application over all RPCs that the gateway forwards."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(
            service=gateway,
            endpoints=endpoints,
            read_max_bytes=MAX_CHECKED_BYTES,
            codecs=google_protobuf_codecs(),
        )

    @property
    def path(self) -> str:
        return "/"


@asynccontextmanager
async def connect_room(gateway: Gateway) -> AsyncIterator[Sequence[BaseRoute]]:
    """Serves the RPCs at `/archon.api...Service/Method`."""
    application: Any = RpcApplication(gateway)
    yield [Route(f"/{service}/{{method}}", application) for service in gateway.upstream.services]
