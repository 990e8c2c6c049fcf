"""The description of the room as a resource that OAuth protects (RFC 9728), by which clients find the provider of
their tokens."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from archon.security.openid.settings import ISSUER
from archon_services.gateway.front.addresses import Addresses

PATH: Final = "/.well-known/oauth-protected-resource"
MCP: Final = "/mcp"
SCOPES: Final = ("openid", "profile", "email")
"""Scopes that a client asks the provider for; the mesh looks at claims alone."""


class ProtectedResource:
    """Says where tokens come from. It needs no token itself."""

    def __init__(self, addresses: Addresses, name: str) -> None:
        self._addresses, self._name = addresses, name

    def challenge(self, request: Request) -> str:
        """Returns the header WWW-Authenticate of a request without a valid token."""
        base = self._addresses.own_url(request.headers.get("host", ""))
        return f'Bearer realm="archon", resource_metadata="{base}{PATH}{MCP}"'

    def routes(self) -> Sequence[BaseRoute]:
        """Returns the routes of the description: the well-known path with the path of the resource, and without."""
        return [Route(path, self._described, methods=["GET"]) for path in (f"{PATH}{MCP}", PATH)]

    async def _described(self, request: Request) -> Response:
        base = self._addresses.own_url(request.headers.get("host", ""))
        content: dict[str, Any] = {
            "resource": f"{base}{MCP}",
            "resource_name": self._name,
            "bearer_methods_supported": ["header"],
        }
        if issuer := os.environ.get(ISSUER, ""):
            content |= {"authorization_servers": [issuer], "scopes_supported": list(SCOPES)}
        return JSONResponse(content, headers={"Cache-Control": "public, max-age=300"})
