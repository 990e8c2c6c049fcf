"""The room of MCP: `/mcp`, the description of it for OAuth, and the pages for secret answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from archon.errors import Unauthenticated
from archon_services.common.sealing import Sealer
from archon_services.gateway.failures import failure_response
from archon_services.gateway.front.addresses import Addresses
from archon_services.gateway.front.body import MAX_BODY
from archon_services.gateway.mcp.calls import Calls
from archon_services.gateway.mcp.errors import TASKS, typed_errors
from archon_services.gateway.mcp.handshake import Handshake
from archon_services.gateway.mcp.lent_tools import LentTools
from archon_services.gateway.mcp.listening import Listening
from archon_services.gateway.mcp.lists import Lists
from archon_services.gateway.mcp.metadata import MCP, ProtectedResource
from archon_services.gateway.mcp.parts import RoomParts
from archon_services.gateway.mcp.resources import Resources
from archon_services.gateway.mcp.secret_page import SecretPages, enter_base
from archon_services.gateway.mcp.state import SealedState
from archon_services.gateway.mcp.task_handlers import TaskHandlers
from archon_services.gateway.mesh_access import MeshAccess
from archon_services.gateway.room import Gateway

STATE_SECONDS: Final = 24 * 3600.0
"""Seconds within which a client sends a call again with the answers of its person."""

_INSTRUCTIONS: Final = (
    "A mesh of agents. Each role is a tool that takes a goal in plain words and may work for minutes; mesh_run has the "
    "mesh choose the roles. Runs are durable: run_get reads one by its id."
)


class MeshServer(Server[Any]):
    """The server of the package, which says that the lists of tools and prompts change."""

    @override
    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        options = notification_options or NotificationOptions(prompts_changed=True, tools_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, {})


class Endpoint:
    """`/mcp`: lets the caller in, and passes the request on by the revision of its client."""

    def __init__(
        self,
        parts: RoomParts,
        addresses: Addresses,
        described: ProtectedResource,
        manager: StreamableHTTPSessionManager,
        handshake: Handshake,
    ) -> None:
        self._parts, self._addresses, self._described = parts, addresses, described
        self._manager, self._handshake = manager, handshake

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request."""
        request = Request(scope, receive)
        try:
            self._parts.access.enter(request.headers)
        except Unauthenticated as error:
            response = failure_response(error)
            response.headers["www-authenticate"] = self._described.challenge(request)
            await response(scope, receive, send)
            return
        enter_base(self._addresses.own_url(request.headers.get("host", "")))
        revision = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
        if revision is None or revision in HANDSHAKE_PROTOCOL_VERSIONS:
            await self._handshake(scope, receive, send)
        else:
            await self._manager.handle_request(scope, receive, send)


@asynccontextmanager
async def mcp_room(gateway: Gateway) -> AsyncIterator[Sequence[BaseRoute]]:
    """Serves MCP for the duration of the block, and yields its routes. Raises FailedPrecondition if the key of sessions
    cannot be used."""
    settings = gateway.settings
    addresses, sealer = Addresses(settings), Sealer.from_file(Path(settings.session_key))
    described = ProtectedResource(addresses, settings.a2a_name)
    async with MeshAccess(gateway, "mcp") as access:
        pages = SecretPages(access, sealer)
        async with RoomParts(access, LentTools(access, settings.registry), pages) as parts:
            gateway.on_stop.append(parts.stopping.set)
            calls, listening = Calls(parts), Listening(parts)
            server = _server(settings.a2a_name, parts, calls, listening, SealedState(sealer, access))
            handshake = Handshake(server, parts, sealer, listening.watch)
            manager = StreamableHTTPSessionManager(server, stateless=True, max_request_body_size=MAX_BODY)
            async with manager.run():
                endpoint: Any = Endpoint(parts, addresses, described, manager, handshake)
                paths = [Route(path, endpoint, methods=["GET", "POST", "DELETE"]) for path in (MCP, f"{MCP}/")]
                yield [*described.routes(), *pages.routes(), *paths]


def _server(name: str, parts: RoomParts, calls: Calls, listening: Listening, state: SealedState) -> MeshServer:
    server = MeshServer(
        name,
        version=version("archon-mesh"),
        instructions=_INSTRUCTIONS,
        on_call_tool=calls.call,  # type: ignore[arg-type]
    )
    for each in (Lists(parts), Resources(parts), TaskHandlers(parts), listening):
        each.add_to(server)
    server.extensions = {TASKS: {}}
    security = RequestStateSecurity(codec=state, ttl=STATE_SECONDS, bind_principal=state.principal)
    middleware: list[Any] = [typed_errors, RequestStateBoundary(security, default_audience="archon-mcp")]
    server.middleware += middleware
    return server
