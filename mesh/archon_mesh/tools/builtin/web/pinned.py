"""Requests to an address that was checked: no name is resolved a second time, nor by a proxy of the environment."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import httpx2

from archon.errors import InvalidArgument
from archon.failure_kinds import INVALID_PARAMETERS

_PORTS: Final = {"http": 80, "https": 443}
_USER_AGENT: Final = {"User-Agent": "archon"}


def parsed_url(url: str, *, longest: int, base: httpx2.URL | None = None) -> httpx2.URL:
    """Returns a URL, relative to `base` if there is one. Raises InvalidArgument if it is longer than `longest`
    characters, is not one of http or https, or has a user name."""
    try:
        if len(url) > longest:
            raise InvalidArgument(f"invalid URL: more than {longest:,} characters", kind=INVALID_PARAMETERS)
        parsed = base.join(url) if base is not None else httpx2.URL(url)
    except (httpx2.InvalidURL, TypeError, UnicodeError) as error:
        raise InvalidArgument(f"invalid URL: {error}", kind=INVALID_PARAMETERS) from None
    if parsed.scheme not in _PORTS or not parsed.host:
        raise InvalidArgument(f"invalid URL: expected http:// or https://, got {url[:100]!r}", kind=INVALID_PARAMETERS)
    if parsed.userinfo:
        raise InvalidArgument("invalid URL: user names and passwords are not accepted", kind=INVALID_PARAMETERS)
    return parsed


def port_of(url: httpx2.URL) -> int:
    """Returns the port of a URL that `parsed_url` has returned."""
    return url.port or _PORTS[url.scheme]


@asynccontextmanager
async def pinned_request(
    method: str,
    url: httpx2.URL,
    address: str,
    *,
    tls: ssl.SSLContext,
    timeout: float | httpx2.Timeout,
    headers: Mapping[str, str],
    content: bytes | None = None,
) -> AsyncIterator[httpx2.Response]:
    """Sends a request to `address` over a connection of its own, and yields the response, whose body is not read.
    Host and SNI name the host of the URL. Redirects are not followed, and cookies not kept. `timeout` is in seconds.
    Raises httpx2.HTTPError."""
    sent = {**_USER_AGENT, **headers, "Host": url.netloc.decode()}
    limits = httpx2.Limits(max_keepalive_connections=0)
    sni = {"sni_hostname": url.raw_host.decode()}
    async with (
        httpx2.AsyncClient(verify=tls, trust_env=False, limits=limits, timeout=timeout) as client,
        client.stream(method, url.copy_with(host=address), headers=sent, content=content, extensions=sni) as response,
    ):
        yield response
