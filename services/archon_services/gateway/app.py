"""Wires the HTTP gateway: settings, channels to the services, the rooms with their routes, and the server."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from archon import mesh_id
from archon.background import BackgroundLoop
from archon.errors import ArchonError
from archon.security.authenticator import own_authenticator
from archon.security.transport import check_listening
from archon_services.common.rates import Rates
from archon_services.common.sealing import Sealer
from archon_services.gateway.chains.room import chains_room
from archon_services.gateway.connect.room import connect_room
from archon_services.gateway.draining import Draining
from archon_services.gateway.events.room import events_room
from archon_services.gateway.failures import answer_failure, not_found
from archon_services.gateway.front.addresses import Addresses
from archon_services.gateway.front.guard import Guard
from archon_services.gateway.front.proxies import behind_proxies
from archon_services.gateway.health import health_room
from archon_services.gateway.hooks.room import hooks_room
from archon_services.gateway.identity.sessions import Sessions
from archon_services.gateway.identity.visitors import Visitors
from archon_services.gateway.limits.streams import Streams
from archon_services.gateway.login.room import login_room
from archon_services.gateway.openapi.room import openapi_room
from archon_services.gateway.optional_rooms import optional_rooms
from archon_services.gateway.room import Gateway, Room
from archon_services.gateway.serving import serving
from archon_services.gateway.settings import GatewaySettings
from archon_services.gateway.shares.room import shares_room
from archon_services.gateway.tls import own_certificate
from archon_services.gateway.upstream import Upstream
from archon_services.gateway.watches.runs import RunWatches
from archon_services.gateway.web.room import web_room

_log = logging.getLogger(__name__)

ROOMS: Final[tuple[Room, ...]] = (
    health_room,
    openapi_room,
    login_room,
    events_room,
    chains_room,
    web_room,
    shares_room,
    hooks_room,
    *optional_rooms(),
    connect_room,
)
"""The parts of the gateway, in the order in which their routes are tried."""

_RPC_HEADERS: Final = (
    "authorization",
    "connect-protocol-version",
    "connect-timeout-ms",
    "content-type",
    "grpc-timeout",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "x-grpc-web",
    "x-user-agent",
)
_RPC_ANSWERS: Final = (
    "grpc-status",
    "grpc-message",
    "grpc-status-details-bin",
    "mcp-session-id",
    "retry-after",
    "www-authenticate",
)
"""Headers that pages of other origins may send and read: https://connectrpc.com/docs/cors, and the transport of MCP."""


@asynccontextmanager
async def gateway_app(settings: GatewaySettings, rooms: tuple[Room, ...] = ROOMS) -> AsyncIterator[str]:
    """Serves for the duration of the block and yields host:port. Starts whether or not the services can be reached.

    Raises Unavailable if the port is in use, FailedPrecondition if others could read its traffic, or the keys of the
    mesh cannot be used.
    """
    certificate = own_certificate(settings.http_tls)
    if warning := check_listening(settings.host, encrypted=certificate is not None, variable="ARCHON_HTTP_TLS"):
        _log.warning("%s", warning)
    authenticator, addresses = own_authenticator(), Addresses(settings)
    keys = BackgroundLoop("keys of an OpenID provider", authenticator.keep_keys)
    sealer = Sealer.from_file(Path(settings.session_key))
    sessions = Sessions(sealer, secure=addresses.secure, label=os.environ.get(mesh_id.VARIABLE, "")[:8])
    visitors = Visitors(authenticator, sessions, Rates(settings.requests_per_second), Streams(settings.streams))
    async with AsyncExitStack() as stack:
        keys.start()
        stack.push_async_callback(keys.close)
        upstream = await stack.enter_async_context(Upstream(settings))
        run_watches = RunWatches(upstream)
        stack.push_async_callback(run_watches.close)
        gateway = Gateway(settings, visitors, upstream, run_watches, Draining(settings.http_drain_seconds))
        gateway.on_stop.append(run_watches.end)
        routes: list[BaseRoute] = []
        for room in rooms:
            routes += await stack.enter_async_context(room(gateway))
        application = _application(routes, gateway, addresses)
        served = serving(
            application, settings.host, settings.port, certificate=certificate, keep_alive=settings.keep_alive_seconds
        )
        address = await stack.enter_async_context(served)
        try:
            yield address
            await gateway.draining.drain()
        finally:
            for stop in gateway.on_stop:
                stop()


def _application(routes: Sequence[BaseRoute], gateway: Gateway, addresses: Addresses) -> ASGIApp:
    application: ASGIApp = Starlette(routes=routes, exception_handlers={ArchonError: answer_failure, 404: not_found})
    if addresses.origins:
        application = CORSMiddleware(
            application,
            addresses.origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=_RPC_HEADERS,
            expose_headers=_RPC_ANSWERS,
            max_age=7_200,
        )
    has_session = gateway.visitors.sessions.present
    settings = gateway.settings
    guard = Guard(application, addresses, has_session, gateway.draining, seconds=settings.body_seconds)
    return behind_proxies(guard, settings.trusted_proxies)
