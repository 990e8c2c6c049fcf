"""The room of the web page: its files, and the same document at the path of each of its views."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from archon.errors import NotFound
from archon_services.gateway.room import Gateway
from archon_services.gateway.web.files import FOLDER, INDEX, PageFile, document_time, read_files

VIEWS: Final = ("runs", "inbox", "chat", "fleet", "tools", "memory", "prompts", "learning", "schedules", "audit")
"""The first segments of the paths of views. A segment that is not here is the API's."""

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types svelte-trusted-html",
    )
)
"""https://www.w3.org/TR/CSP3/: scripts and styles are files of the page alone, and no text becomes markup."""

_FOREVER: Final = "public, max-age=31536000, immutable"
"""For files whose name has a digest of their content."""

_NOT_BUILT: Final = (
    "The web page is not built. In a clone `archon up` in a terminal builds it, or `make web`: load this page again "
    "then.\n"
)
_SERVICE_UNAVAILABLE: Final = 503


class Page:
    """Answers with the files of the page. They are read when a browser first asks, and again when the document has
    changed, so that a page which is built while the gateway runs is served."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._files: Mapping[str, PageFile] = {}
        self._time = 0

    async def document(self, request: Request) -> Response:
        """Answers a request for a view: the same document for all, whose script reads the path."""
        file = (await self._read()).get(INDEX)
        if file is None:
            return PlainTextResponse(_NOT_BUILT, _SERVICE_UNAVAILABLE)
        return _answer(request, file, {"content-security-policy": POLICY, "cache-control": "no-cache"})

    async def file(self, request: Request) -> Response:
        """Answers a request for a file. Raises NotFound."""
        name = request.url.path.removeprefix("/")
        file = (await self._read()).get(name)
        if file is None:
            raise NotFound(f"there is no file {name[:200]!r}")
        return _answer(request, file, {"cache-control": _FOREVER if name.startswith("assets/") else "no-cache"})

    async def _read(self) -> Mapping[str, PageFile]:
        time = await asyncio.to_thread(document_time, self._folder)
        if time and time != self._time:
            self._files, self._time = await asyncio.to_thread(read_files, self._folder), time
        return self._files


class BrowserRoute(Route):
    """A route for browsers alone: programs, which do not accept HTML, go on to the next route of the path."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, child = super().matches(scope)
        if match is Match.FULL and "text/html" not in Headers(scope=scope).get("accept", ""):
            return Match.NONE, {}
        return match, child


def _answer(request: Request, file: PageFile, headers: dict[str, str]) -> Response:
    headers["vary"] = "accept, accept-encoding"
    if file.compressed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.compressed, media_type=file.media_type, headers={**headers, "content-encoding": "gzip"})
    return Response(file.content, media_type=file.media_type, headers=headers)


@asynccontextmanager
async def web_room(gateway: Gateway) -> AsyncIterator[Sequence[BaseRoute]]:
    """Serves `/`, the paths of views, `/assets/...` and `/icon.svg`, without credentials: they have nothing of the
    mesh. For browsers also `/shared/LINK`, whose script reads the run of the link as programs do."""
    page = Page()
    yield [
        Route("/", page.document, methods=["GET"]),
        BrowserRoute("/shared/{link}", page.document, methods=["GET"]),
        Route("/icon.svg", page.file, methods=["GET"]),
        Route("/assets/{name}", page.file, methods=["GET"]),
        *(Route(f"/{view}", page.document, methods=["GET"]) for view in VIEWS),
        *(Route(f"/{view}/{{rest:path}}", page.document, methods=["GET"]) for view in VIEWS),
    ]
