"""Proxies in front of the gateway, which say from where and by which scheme a client has reached them."""

from __future__ import annotations

import ipaddress
from typing import Any

from starlette.types import ASGIApp

from archon.errors import InvalidArgument


def behind_proxies(application: ASGIApp, trusted: str) -> ASGIApp:
    """Returns an application that knows the client of a request by X-Forwarded-For, and its scheme by
    X-Forwarded-Proto, if the request comes from one of the `trusted` addresses or networks, separated by commas; the
    last address of the list that is not trusted counts. Raises InvalidArgument for another form."""
    hops = [each.strip() for each in trusted.split(",") if each.strip()]
    if not hops:
        return application
    for each in hops:
        try:
            ipaddress.ip_network(each)
        except ValueError as error:
            raise InvalidArgument(f"ARCHON_TRUSTED_PROXIES: {error}") from None
    from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

    proxied: Any = ProxyHeadersMiddleware
    wrapped: ASGIApp = proxied(application, hops)
    return wrapped
