"""Searching the web as a tool, through an endpoint that speaks the JSON of SearXNG."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from typing_extensions import override

from archon.errors import FailedPrecondition, InvalidArgument, ResourceExhausted
from archon.failure_kinds import TOOL_CRASH, TOOL_RESOURCES
from archon_mesh.tools.builtin.web.addresses import AddressPolicy
from archon_mesh.tools.tool import Tool

SEARCH_URL: Final = "ARCHON_SEARCH_URL"
MAX_RESULTS: Final = 5
MAX_ANSWER_BYTES: Final = 1024 * 1024
"""Bytes of an answer of the endpoint."""

_MAX_TITLE, _MAX_SNIPPET, _MAX_URL = 300, 1_000, 2_000
"""Characters."""

_PARAMETERS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "pattern": r"\S", "maxLength": 1_000, "description": "what to look for"}
    },
    "required": ["query"],
    "additionalProperties": False,
}


class WebSearch(Tool):
    """Searches the web: `GET ENDPOINT?q=QUERY&format=json`, answered by
    `{"results": [{"title": ..., "content": ..., "url": ...}]}`, as SearXNG does.

    `endpoint` is by default the variable ARCHON_SEARCH_URL. Its address is not restricted, and redirects are not
    followed: the author of the agent has chosen it.
    """

    name = "web_search"
    description = f"Searches the web and returns up to {MAX_RESULTS} results with title, snippet and URL."
    parameters_schema = _PARAMETERS
    idempotent = True

    def __init__(self, endpoint: str = "", *, tls: ssl.SSLContext | None = None) -> None:
        """Raises InvalidArgument if there is no endpoint, or if it is not an http or https URL."""
        self._endpoint = endpoint or os.environ.get(SEARCH_URL, "")
        if not self._endpoint:
            raise InvalidArgument(f"no search endpoint: pass `endpoint`, or set {SEARCH_URL}")
        parts = urlsplit(self._endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise InvalidArgument("invalid search endpoint: expected http:// or https://, without user and password")
        self._host = parts.hostname
        from archon_mesh.tools.builtin.web.client import WebClient  # httpx2 is slow to import

        self._client = WebClient(AddressPolicy(None), max_redirects=0, tls=tls)

    @override
    async def execute(self, **kwargs: Any) -> list[dict[str, str]]:
        """Returns the results. Raises the errors of WebClient.get, FailedPrecondition for an answer of another form,
        and ResourceExhausted for one that is too large."""
        response = await self._client.get(
            self._endpoint,
            max_bytes=MAX_ANSWER_BYTES,
            check_type=self._check_type,
            params={"q": kwargs["query"], "format": "json"},
        )
        if response.is_cut:
            message = f"the answer of {self._host} is larger than {MAX_ANSWER_BYTES:,} bytes"
            raise ResourceExhausted(message, kind=TOOL_RESOURCES)
        try:
            answer = json.loads(response.body)
            results = answer["results"]
            if not isinstance(results, list):
                raise TypeError("results is not a list")
        except (ValueError, TypeError, LookupError, RecursionError):
            raise FailedPrecondition(
                f"{self._host} does not answer with search results in JSON", kind=TOOL_CRASH
            ) from None
        return list(_results(results))[:MAX_RESULTS]

    def _check_type(self, media_type: str) -> None:
        if media_type != "application/json":
            message = f"{self._host} answers with {media_type[:100] or 'no media type'}, not application/json"
            raise FailedPrecondition(message, kind=TOOL_CRASH)


def _results(results: list[Any]) -> Iterator[dict[str, str]]:
    for result in results:
        if not isinstance(result, Mapping) or not isinstance(url := result.get("url"), str):
            continue
        if url.startswith(("http://", "https://")) and len(url) <= _MAX_URL:
            title, snippet = str(result.get("title") or ""), str(result.get("content") or "")
            yield {"title": title[:_MAX_TITLE], "snippet": snippet[:_MAX_SNIPPET], "url": url}
