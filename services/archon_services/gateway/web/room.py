"""The room of the web page: its files, and the same document at the path of each of its views."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from archon.errors import NotFound
from archon_services.gateway.room import Gateway
from archon_services.gateway.web.files import FOLDER, INDEX, PageFile, read_files

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

_NOT_BUILT: Final = "The web page is not built: `make web` in the clone builds it, then load this page again.\n"
_SERVICE_UNAVAILABLE: Final = 503


class Page:
    """Answers with the files of the page. They are read when a browser first asks, and again while there are none, so
    that a page which is built while the gateway runs is served."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._files: Mapping[str, PageFile] = {}

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
        if not self._files:
            self._files = await asyncio.to_thread(read_files, self._folder)
        return self._files


def _answer(request: Request, file: PageFile, headers: dict[str, str]) -> Response:
    headers["vary"] = "accept-encoding"
    if file.compressed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.compressed, media_type=file.media_type, headers={**headers, "content-encoding": "gzip"})
    return Response(file.content, media_type=file.media_type, headers=headers)


@asynccontextmanager
async def web_room(gateway: Gateway) -> AsyncIterator[Sequence[BaseRoute]]:
    """Serves `/`, the paths of views, `/assets/...` and `/icon.svg`, without credentials: they have nothing of the
    mesh."""
    page = Page()
    yield [
        Route("/", page.document, methods=["GET"]),
        Route("/icon.svg", page.file, methods=["GET"]),
        Route("/assets/{name}", page.file, methods=["GET"]),
        *(Route(f"/{view}", page.document, methods=["GET"]) for view in VIEWS),
        *(Route(f"/{view}/{{rest:path}}", page.document, methods=["GET"]) for view in VIEWS),
    ]
