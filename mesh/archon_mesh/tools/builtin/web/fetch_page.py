"""Reading a page of the web as a tool."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable, Mapping
from typing import Any, Final

from typing_extensions import override

from archon.errors import FailedPrecondition
from archon.threads import on_thread
from archon_mesh.tools.builtin.web.addresses import AddressPolicy, Resolve, resolve_by_system
from archon_mesh.tools.builtin.web.html import decoded, text_of
from archon_mesh.tools.tool import Tool

MAX_PAGE_BYTES: Final = 2 * 1024 * 1024
"""Bytes of a page that are read, decompressed."""

MAX_TEXT: Final = 48 * 1024
"""Characters of the text of a page that one call returns."""

_HTML: Final = {"text/html", "application/xhtml+xml"}
_TEXT: Final = re.compile(r"text/.+|application/(.+\+)?(json|xml|yaml|javascript)|application/(x-)?ndjson")

_PARAMETERS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"url": {"type": "string", "minLength": 1, "description": "an http or https URL"}},
    "required": ["url"],
    "additionalProperties": False,
}


class FetchPage(Tool):
    """Reads a page over http or https and returns its text.

    Addresses that are not public are refused, also after redirects, except the ones of `allow_hosts`: names of hosts,
    or `host:port`. `resolve` and `tls` replace the system's resolver and certificates, for tests and private networks.
    """

    name = "fetch_page"
    description = f"Reads a page of the web and returns its title and text, up to {MAX_TEXT // 1024} Ki characters."
    parameters_schema = _PARAMETERS
    idempotent = True

    def __init__(
        self,
        allow_hosts: Iterable[str] = (),
        *,
        resolve: Resolve = resolve_by_system,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        from archon_mesh.tools.builtin.web.client import WebClient  # httpx2 is slow to import

        self._client = WebClient(AddressPolicy(allow_hosts, resolve), tls=tls)

    @override
    async def execute(self, **kwargs: Any) -> dict[str, Any]:
        """Returns URL (after redirects), title, text, and whether there is more text. Raises the errors of
        WebClient.get, and FailedPrecondition for a page that is not text."""
        response = await self._client.get(kwargs["url"], max_bytes=MAX_PAGE_BYTES, check_type=_check_type)
        text = decoded(response.body, response.charset)
        title, is_cut = "", len(text) > MAX_TEXT
        if response.media_type in _HTML:
            parsed, error = await on_thread(lambda: text_of(text, MAX_TEXT), "parse a page")  # may take seconds
            if error is not None:
                raise error
            assert isinstance(parsed, tuple)
            title, text, is_cut = parsed
        return {"url": response.url, "title": title, "text": text[:MAX_TEXT], "truncated": is_cut or response.is_cut}


def _check_type(media_type: str) -> None:
    if not _TEXT.fullmatch(media_type) and media_type not in _HTML:
        raise FailedPrecondition(f"the page is {media_type[:100] or 'of no media type'}, not text")
