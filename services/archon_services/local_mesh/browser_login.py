"""One-time addresses of the HTTP gateway of a mesh on this machine, which log a browser in."""

from __future__ import annotations

from archon_services.gateway.identity.logins import issue
from archon_services.local_mesh.home import Home
from archon_services.local_mesh.options import GATEWAY
from archon_services.local_mesh.state import MeshState
from archon_services.local_mesh.tokens import TokenIssuer, user

LIFETIME = 12 * 3600.0
"""Seconds for which a browser is logged in."""


def login_address(home: Home, state: MeshState) -> str:
    """Returns an address that logs a browser in as the user, once and within minutes; the plain address if the tokens
    of the mesh are issued elsewhere, and an empty text if it runs no HTTP gateway."""
    address = state.address(GATEWAY)
    if address and not home.signing_key.exists():
        return f"{gateway_url(state)}/"
    return once(home, state, TokenIssuer(home).token(user(), lifetime=LIFETIME)) if address else ""


def gateway_url(state: MeshState) -> str:
    """Returns the URL of the HTTP gateway; empty if the mesh runs none."""
    address = state.address(GATEWAY)
    return f"{'https' if state.tls else 'http'}://{address}" if address else ""


def once(home: Home, state: MeshState, token: str) -> str:
    """Returns an address that logs a browser in with a token, once and within minutes; empty if the mesh runs no HTTP
    gateway."""
    address = gateway_url(state)
    return f"{address}/login/once?code={issue(home.logins, token)}" if address else ""
