"""The room of A2A: cards at well-known URLs, JSON-RPC and HTTP+JSON below /a2a, and a gRPC server beside them."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from a2a.server.request_handlers.grpc_handler import GrpcHandler
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.server.routes import create_jsonrpc_routes, create_rest_routes
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import Scope

from archon.errors import NotFound
from archon.loopback import with_port
from archon.security.authenticator import Caller
from archon_services.gateway.a2a.cards import CardPlace, card_of
from archon_services.gateway.a2a.grpc_server import serve_grpc
from archon_services.gateway.a2a.handler import MeshRequestHandler, PushParts
from archon_services.gateway.a2a.mesh_access import MeshAccess
from archon_services.gateway.a2a.push_delivery import PushDelivery
from archon_services.gateway.a2a.push_store import PushStore
from archon_services.gateway.a2a.requests import Admission, GrpcCalls, HttpCalls
from archon_services.gateway.a2a.signing import JWKS_PATH, CardKey
from archon_services.gateway.a2a.webhook import Webhooks
from archon_services.gateway.agents import AgentDirectory
from archon_services.gateway.room import Gateway

_OF_CALLERS: Final = ("utils.error_handlers", "utils.version_validator", "server.routes.jsonrpc_dispatcher")
"""Loggers of the SDK that write a line, or a stack, for each mistake of a caller."""

CACHE: Final = "public, max-age=60"
PRIVATE_CACHE: Final = "private, max-age=60"
"""Cache-Control of a card: a role may change from one minute to the next."""


@asynccontextmanager
async def a2a_room(gateway: Gateway) -> AsyncIterator[Sequence[BaseRoute]]:
    """Serves A2A for the duration of the block, and yields its routes. Raises Unavailable if the port of gRPC is in
    use, FailedPrecondition if the key of the cards cannot be used."""
    settings = gateway.settings
    for name in _OF_CALLERS:
        logging.getLogger(f"a2a.{name}").setLevel(logging.CRITICAL)
    key = CardKey.read(settings.a2a_key)
    async with MeshAccess(gateway) as mesh:
        webhooks = Webhooks(settings.a2a_push_hosts.split(",") if settings.a2a_push_hosts else ())
        store = PushStore(mesh.values)
        delivery = PushDelivery(store, mesh.own_runs, webhooks)
        push = PushParts(store, delivery, webhooks) if mesh.values is not None else None
        agents = AgentDirectory(mesh.directory)
        handler = MeshRequestHandler(mesh, agents, key, push)
        place = CardPlace(
            settings.public_url.rstrip("/"),
            mesh_name=settings.a2a_name,
            secured=mesh.needs_token,
            openid=os.environ.get("ARCHON_OIDC_ISSUER", ""),
            push=push is not None,
        )
        calls = GrpcCalls(mesh)
        async with serve_grpc(GrpcHandler(handler, calls), settings.host, settings.a2a_grpc_port) as port:
            target = settings.a2a_grpc_target or with_port(settings.host, port)
            cards = Cards(mesh, agents, key, replace(place, grpc_target=target))
            own = f"http://{with_port(settings.host, settings.port)}" if settings.port else ""
            calls.place = replace(place, grpc_target=target, base_url=place.base_url or own)
            if push is not None:
                delivery.start()
            try:
                yield [*cards.routes(), *_operations(mesh, handler, cards)]
            finally:
                await delivery.close()


def _operations(mesh: MeshAccess, handler: MeshRequestHandler, cards: Cards) -> list[BaseRoute]:
    """Returns the routes of JSON-RPC and HTTP+JSON for the mesh, and for each role."""
    calls = HttpCalls(cards.place_of)
    admitted = [Middleware(Admission, mesh=mesh)]
    routes: list[BaseRoute] = []
    for path in ("/a2a/roles/{role}", "/a2a"):
        [rpc] = create_jsonrpc_routes(handler, path, calls)
        for each in (path, f"{path}/"):  # clients with a base URL append a slash
            routes.append(Route(each, rpc.endpoint, methods=["POST"], middleware=admitted))
        routes.append(Mount(path, routes=create_rest_routes(handler, calls), middleware=admitted))
    return routes


class Cards:
    """The agent cards, which callers without a token may read; they show the roles of the caller's tenant."""

    def __init__(self, mesh: MeshAccess, agents: AgentDirectory, key: CardKey, place: CardPlace) -> None:
        self._mesh = mesh
        self._agents = agents
        self._key = key
        self._place = place

    def place_of(self, scope: Scope) -> CardPlace:
        """Returns where a request has reached the room: the public URL, or the socket of the server. A Host header
        counts for nothing, because anyone could have it signed."""
        if self._place.base_url:
            return self._place
        host, port = scope.get("server") or ("127.0.0.1", 80)
        return replace(self._place, base_url=f"{scope.get('scheme', 'http')}://{with_port(host, port or 80)}")

    def routes(self) -> list[BaseRoute]:
        """Returns the routes of the cards and of the key that verifies them."""
        return [
            Route(AGENT_CARD_WELL_KNOWN_PATH, self._card),
            Route(f"/a2a{AGENT_CARD_WELL_KNOWN_PATH}", self._card),
            Route(f"/a2a/roles/{{role}}{AGENT_CARD_WELL_KNOWN_PATH}", self._card),
            Route(JWKS_PATH, self._jwks),
        ]

    async def _card(self, request: Request) -> Response:
        has_token = "authorization" in request.headers
        caller = self._mesh.enter(request.headers) if has_token else Caller()
        name = request.path_params.get("role", "")
        agent = await self._agents.find(name, caller.tenant)
        if agent is None:
            raise NotFound(f"no instance of the role {name[:100]!r} is live", metadata={"role": name[:100]})
        place = self.place_of(request.scope)
        card = card_of(agent, place)
        content = agent_card_to_dict(card)
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        headers = {
            "ETag": f'W/"{digest}"',
            "Cache-Control": PRIVATE_CACHE if has_token else CACHE,
            "Vary": "Authorization",
        }
        if digest in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return JSONResponse(agent_card_to_dict(self._key.sign(card, place.base_url)), headers=headers)

    async def _jwks(self, request: Request) -> Response:
        return JSONResponse(self._key.jwks, headers={"Cache-Control": CACHE})
