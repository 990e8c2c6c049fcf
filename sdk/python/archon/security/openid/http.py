"""Requests to an OpenID provider: JSON of a bounded size within a time, without redirects, encrypted off this
machine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from archon.errors import InvalidArgument, Unavailable
from archon.loopback import is_loopback

if TYPE_CHECKING:
    import httpx2

SECONDS: Final = 10.0
"""The time of one request, from the connection to the end of the answer."""

MAX_BYTES: Final = 512 * 1024
"""Bytes of an answer."""

_HEADERS: Final = {"accept": "application/json", "accept-encoding": "identity", "user-agent": "archon-mesh"}


def checked_url(url: str) -> str:
    """Returns the URL unchanged. Raises InvalidArgument unless it is https, or http to this machine."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise InvalidArgument(f"{url!r} is not a URL") from None
    if parts.scheme not in ("https", "http") or not host or parts.username is not None:
        raise InvalidArgument(f"{url!r} is not a URL such as https://login.example.com")
    if parts.scheme == "http" and not is_loopback(host):
        raise InvalidArgument(f"{url!r} is not https: its answers could be forged on the way")
    return url


async def request_json(
    url: str, form: Mapping[str, str] | None = None, *, seconds: float = SECONDS
) -> tuple[int, dict[str, Any]]:
    """Gets a JSON object, or posts a form to get one. Returns the status, below 500, and the object, which is empty if
    the body of an error is something else. Raises Unavailable if there is no such answer in time, and InvalidArgument
    as `checked_url` does."""
    import httpx2  # slow to import, and few processes have a provider

    checked_url(url)
    loopback = is_loopback(urlsplit(url).hostname or "")
    try:
        async with (
            asyncio.timeout(seconds),
            httpx2.AsyncClient(
                headers=_HEADERS,
                timeout=seconds,
                follow_redirects=False,
                # A proxy of the environment reaches no provider on this machine.
                transport=httpx2.AsyncHTTPTransport() if loopback else None,
            ) as client,
            client.stream(
                "GET" if form is None else "POST", url, data=None if form is None else dict(form)
            ) as response,
        ):
            return response.status_code, await _object(response, url)
    except TimeoutError:
        raise Unavailable(f"{url} has not answered within {seconds:g} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, ImportError, OSError) as error:
        raise Unavailable(f"{url}: {str(error) or type(error).__name__}") from None


async def _object(response: httpx2.Response, url: str) -> dict[str, Any]:
    status = response.status_code
    if 300 <= status < 400:
        raise Unavailable(f"{url} redirects to another address, which is not followed")
    if status >= 500 or status < 200:
        raise Unavailable(f"{url} answered {status}")
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise Unavailable(f"{url} answered in an encoding that was not asked for")
    body = bytearray()
    async with aclosing(response.aiter_raw()) as pieces:
        async for piece in pieces:
            body += piece
            if len(body) > MAX_BYTES:
                raise Unavailable(f"{url} answered with more than {MAX_BYTES // 1024} KiB")
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        content = None
    if isinstance(content, dict):
        return content
    if status < 300 and body:
        raise Unavailable(f"{url} answered with something else than a JSON object")
    return {}
