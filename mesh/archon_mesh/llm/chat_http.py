"""Requests of the chat completions API over HTTP."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import httpx2

from archon.errors import InvalidArgument
from archon_mesh.llm.provider_errors import status_error

OPENAI: Final = "https://api.openai.com/v1"
PATH: Final = "/chat/completions"

CONNECT: Final = 10.0
"""Seconds to connect, of those that a call may take."""

MAX_CONNECTIONS: Final = 1_000
MAX_IDLE: Final = 100
"""Connections of a client in all, and those that it keeps between calls."""

_HEADERS: Final = {"OPENAI_ORG_ID": "OpenAI-Organization", "OPENAI_PROJECT_ID": "OpenAI-Project"}


class ChatHttp:
    """The connections of one event loop to an endpoint.

    `address` is its base URL, None for OpenAI; a query in it, such as Azure's `api-version`, is kept. Raises
    InvalidArgument if it is no URL of HTTP, or if a proxy of the environment cannot be used.
    """

    def __init__(self, address: str | None, key: str) -> None:
        try:
            parts = urlsplit(address or OPENAI)
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise InvalidArgument(f"invalid base URL {address!r}: expected http://HOST/PATH or https://HOST/PATH")
        path = parts.path.rstrip("/").removesuffix(PATH) + PATH
        self._url = urlunsplit(parts._replace(path=path, fragment=""))
        self._key = key
        try:
            self._client = httpx2.AsyncClient(
                headers=_headers(key),
                follow_redirects=True,
                limits=httpx2.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_IDLE),
            )
        except (ValueError, ImportError, httpx2.InvalidURL) as error:
            raise InvalidArgument(f"a proxy of the environment cannot be used: {error}") from None

    async def post(self, body: Mapping[str, Any], timeout: float) -> httpx2.Response:
        """Sends a request and returns the response, whose content the caller reads and closes. `timeout` is in seconds,
        between the parts of the response too.

        Raises the error of a status that is not one of success, and what httpx2 raises.
        """
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
        limits = httpx2.Timeout(timeout, connect=min(CONNECT, timeout))
        request = self._client.build_request("POST", self._url, content=content, timeout=limits)
        response = await self._client.send(request, stream=True)
        if response.is_success:
            return response
        try:
            raise status_error(response.status_code, response.headers, await response.aread(), self._key)
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Closes the connections. Idempotent."""
        await self._client.aclose()


def _headers(key: str) -> dict[str, str]:
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    headers["user-agent"] = "archon-mesh"
    if key:
        headers["authorization"] = f"Bearer {key}"
    return headers | {header: value for name, header in _HEADERS.items() if (value := os.environ.get(name, "").strip())}
