"""Documents for browsers: templates in which every text is escaped, no scripts, one style sheet; JSON for programs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from archon import status
from archon.errors import ArchonError
from archon.plain_text import duration
from archon_services.gateway.failures import HTTP_STATUS, retry_headers
from archon_services.reports.texts import cost_text, one_line, strip_controls

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER: Final = Path(__file__).parent

POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
DRAWING_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"
"""Of a drawing, which has its own styles and no script, whether a document shows it or a browser opens it."""

VIEWS: Final = (("sources", "Sources"), ("time", "Time"), ("difference", "Difference"), ("prompts", "Prompts"))
"""The documents of a run: the last segment of the path of each, and its name."""

MAX_LINE: Final = 300
MAX_TEXT: Final = 20_000
"""Characters of a text that is shown; JSON has all."""

Handler = Callable[[Request], Awaitable[Response]]


def wants_document(request: Request) -> bool:
    """Returns whether a browser asks: programs, which do not accept HTML, get JSON."""
    return "text/html" in request.headers.get("accept", "")


async def document(request: Request, template: str, values: Mapping[str, Any], status_code: int = 200) -> Response:
    """Returns a document. Each template takes the values `title`, `run_id` and `view`, and some of its own."""
    theme = request.cookies.get("theme", "")
    given = {"run_id": "", "view": "", "views": VIEWS, "theme": theme if theme in ("dark", "light") else "", **values}
    text = await run_in_threadpool(lambda: _environment().get_template(template).render(given))
    return HTMLResponse(text, status_code, headers={"content-security-policy": POLICY, "vary": "accept, cookie"})


def drawing(svg: str) -> Response:
    """Returns a drawing, as an image of a document."""
    return Response(svg, media_type="image/svg+xml", headers={"content-security-policy": DRAWING_POLICY})


def for_browsers(handler: Handler) -> Handler:
    """Returns a handler whose errors are documents, if a browser asks."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except Exception as raised:
            if not wants_document(request):
                raise
            return await failure_document(request, status.as_error(raised))

    return handle


async def failure_document(request: Request, error: ArchonError) -> Response:
    """Returns an error as a document."""
    path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    values = {
        "title": "Not shown",
        "message": str(error),
        "reason": error.reason or error.code,
        "login": f"/login?next={quote(path)}" if error.code == "UNAUTHENTICATED" else "",
        "run_id": request.path_params.get("run_id", ""),
    }
    response = await document(request, "failure.html", values, HTTP_STATUS[error.code])
    response.headers.update(retry_headers(error))
    return response


async def style(request: Request) -> Response:
    """Answers with the style sheet of the documents: the rules that the web page has as well, then their own."""
    return Response(_style(), media_type="text/css", headers={"cache-control": "no-cache"})


@cache
def _style() -> bytes:
    return (FOLDER / "base.css").read_bytes() + (FOLDER / "report.css").read_bytes()


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(duration=duration, cost=cost_text, visible=_visible, line=_line)
    return environment


def _line(text: str) -> str:
    return one_line(text, MAX_LINE)


def _visible(text: str) -> str:
    """Returns a text without control characters, of at most MAX_TEXT characters."""
    more = len(text) - MAX_TEXT
    return strip_controls(text[:MAX_TEXT]) + (f"\n(and {more:,} more characters)" if more > 0 else "")
