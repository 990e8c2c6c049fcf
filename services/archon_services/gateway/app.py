"""Wires the HTTP gateway: settings, channels to the services, the rooms with their routes, and the server."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from archon.background import BackgroundLoop
from archon.security.authenticator import own_authenticator
from archon.security.transport import check_listening
from archon_services.gateway.connect.room import connect_room
from archon_services.gateway.optional_rooms import optional_rooms
from archon_services.gateway.failures import answer_failure
from archon_services.gateway.identity.visitors import Visitors
from archon_services.gateway.room import Gateway, Room
from archon_services.gateway.serving import serving
from archon_services.gateway.settings import GatewaySettings
from archon_services.gateway.upstream import Upstream

_log = logging.getLogger(__name__)

ROOMS: Final[tuple[Room, ...]] = (connect_room, *optional_rooms())
"""The parts of the gateway, in the order in which their routes are tried."""


@asynccontextmanager
async def gateway_app(settings: GatewaySettings, rooms: tuple[Room, ...] = ROOMS) -> AsyncIterator[str]:
    """Serves for the duration of the block and yields host:port. Starts whether or not the services can be reached.

    Raises Unavailable if the port is in use, FailedPrecondition if others could read its traffic, or the keys of the
    mesh cannot be used.
    """
    if warning := check_listening(settings.host, encrypted=False):
        _log.warning("%s", warning)
    authenticator = own_authenticator()
    keys = BackgroundLoop("keys of an OpenID provider", authenticator.keep_keys)
    async with AsyncExitStack() as stack:
        keys.start()
        stack.push_async_callback(keys.close)
        upstream = await stack.enter_async_context(Upstream(settings))
        gateway = Gateway(settings, Visitors(authenticator), upstream)
        routes: list[BaseRoute] = []
        for room in rooms:
            routes += await stack.enter_async_context(room(gateway))
        application = Starlette(routes=routes, exception_handlers={Exception: answer_failure})
        yield await stack.enter_async_context(serving(application, settings.host, settings.port))
