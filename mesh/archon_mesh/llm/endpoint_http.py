"""Requests to the API of a model endpoint over HTTP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import httpx2

from archon.errors import InvalidArgument, MessageTooLarge
from archon.failure_kinds import PROVIDER
from archon.loopback import is_loopback
from archon_mesh.llm.exchanges import SentRequest, note_sent
from archon_mesh.llm.provider_errors import status_error

CONNECT: Final = 10.0
"""Seconds to connect, of those that a call may take."""

MAX_CONNECTIONS: Final = 1_000
MAX_IDLE: Final = 100
"""Connections of a client in all, and those that it keeps between calls."""

MAX_REPLY: Final = 64 * 1024 * 1024
"""Bytes of a whole reply, after decompression."""

MAX_STREAM: Final = 256 * 1024 * 1024
"""Bytes of all events of a reply."""

MAX_ERROR: Final = 64 * 1024
"""Bytes of the body of an error that are read."""

APIS: Final = {"/chat/completions": "openai", "/responses": "openai-responses", "/v1/messages": "anthropic"}
"""The APIs by their paths, as names of models begin."""

_LIMITS: Final = httpx2.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_IDLE)
_HEADERS: Final = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "user-agent": "archon-mesh",
}


def direct(url: str | None, limits: httpx2.Limits) -> httpx2.AsyncHTTPTransport | None:
    """Returns a transport that uses no proxy, if the server is on this machine; None for another one, which is reached
    through the proxy of the environment."""
    host = urlsplit(url or "").hostname or ""
    return httpx2.AsyncHTTPTransport(limits=limits) if is_loopback(host) else None


class EndpointHttp:
    """The connections of one event loop to an endpoint.

    `address` is its base URL, to which `path` is added unless it ends with it; a query in it, such as Azure's
    `api-version`, is kept. `headers` are sent with each request; `key` is removed from errors. Raises InvalidArgument
    if the address is no URL of HTTP, or if a proxy of the environment cannot be used.
    """

    def __init__(self, address: str, path: str, headers: Mapping[str, str], key: str) -> None:
        try:
            parts = urlsplit(address)
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise InvalidArgument(f"invalid base URL {address!r}: expected http://HOST/PATH or https://HOST/PATH")
        self._url = urlunsplit(parts._replace(path=parts.path.rstrip("/").removesuffix(path) + path, fragment=""))
        self._key = key
        self._api = APIS.get(path, "")
        try:
            self._client = httpx2.AsyncClient(
                headers={**_HEADERS, **headers},
                follow_redirects=True,
                limits=_LIMITS,
                transport=direct(address, _LIMITS),
            )
        except (ValueError, ImportError, httpx2.InvalidURL) as error:
            raise InvalidArgument(f"a proxy of the environment cannot be used: {error}") from None

    async def post(self, body: Mapping[str, Any], timeout: float) -> httpx2.Response:
        """Sends a request and returns the response, whose content the caller reads and closes. `timeout` is in seconds,
        between the parts of the response too.

        Raises the error of a status that is not one of success, and the errors of httpx2.
        """
        content = encoded(body)
        note_sent(SentRequest(self._api, self._url, body, content, bool(self._key)))
        limits = httpx2.Timeout(timeout, connect=min(CONNECT, timeout))
        request = self._client.build_request("POST", self._url, content=content, timeout=limits)
        response = await self._client.send(request, stream=True)
        if response.is_success:
            return response
        try:
            raise status_error(response.status_code, response.headers, await _beginning(response), self._key)
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Closes the connections. Idempotent."""
        await self._client.aclose()


def encoded(body: Mapping[str, Any]) -> bytes:
    """Returns the bytes of a body as they are sent."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


async def whole(response: httpx2.Response) -> bytes:
    """Reads a reply. Raises MessageTooLarge above MAX_REPLY."""
    body = bytearray()
    async with aclosing(response.aiter_bytes()) as pieces:
        async for piece in pieces:
            body += piece
            check_size(len(body), MAX_REPLY)
    return bytes(body)


def check_size(size: int, limit: int) -> None:
    """Raises MessageTooLarge if a reply has more bytes than its limit."""
    if size > limit:
        raise MessageTooLarge(f"the model endpoint sent more than {limit // (1024 * 1024)} MiB", kind=PROVIDER)


async def _beginning(response: httpx2.Response) -> bytes:
    body = bytearray()
    async with aclosing(response.aiter_bytes()) as pieces:
        async for piece in pieces:
            body += piece
            if len(body) >= MAX_ERROR:
                break
    return bytes(body[:MAX_ERROR])
