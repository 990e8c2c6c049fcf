"""A mesh of real processes whose gateway serves the web page, and browsers that are logged in to it."""

from __future__ import annotations

import asyncio
import fcntl
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

from playwright.async_api import Browser, ConsoleMessage, Page

from archon.client import Client
from archon.principal import Kind, Principal
from archon_services.gateway.web import build
from archon_services.local_mesh import Home
from archon_services.local_mesh.browser_login import once
from archon_services.local_mesh.tokens import TokenIssuer
from archon_services.testing.mesh import LocalMesh

PATIENCE: Final = 30_000.0
"""Milliseconds in which something has to appear on the page."""

WIDE: Final = (1280, 800)
PHONE: Final = (360, 740)
RULES: Final = "rules: [{trigger: plan, name: costly plans, cost_above: 5.0}]"
"""A person is asked about plans whose estimate is above 5 US$."""

_REFUSED: Final = "Failed to load resource"
"""How the console begins its note of a request that a server refused."""


class OpenPage:
    """A page of a browser that is logged in. `errors` are exceptions of scripts and errors in the console, but for
    requests that were refused or cut off, which the page itself reports."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._logged)

    def _logged(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(_REFUSED):
            self.errors.append(message.text)

    async def go(self, path: str) -> Page:
        """Opens a path of the gateway, such as `/runs`, and returns the page."""
        await self.page.goto(self.url + path)
        return self.page


class WebMesh:
    """A running mesh, and the browser for its page."""

    def __init__(self, mesh: LocalMesh, browser: Browser) -> None:
        self.mesh, self.browser = mesh, browser

    @property
    def url(self) -> str:
        """The address of the gateway."""
        return f"http://{self.mesh.state.address('gateway')}"

    def client(self) -> Client:
        """Returns a client of the orchestrator with the rights of the user of this process."""
        return Client(self.mesh.orchestrator, credentials=self.mesh.credentials)

    def login(self, kind: Kind = Kind.ADMIN, name: str = "") -> str:
        """Returns an address that logs a browser in once, as a person of this kind."""
        home = Home(self.mesh.home)
        token = TokenIssuer(home).token(Principal(kind, name or f"{kind.value}-of-tests"))
        return once(home, self.mesh.state, token)

    @asynccontextmanager
    async def logged_in(
        self, kind: Kind = Kind.ADMIN, *, size: tuple[int, int] = WIDE, name: str = "", **options: Any
    ) -> AsyncIterator[OpenPage]:
        """A page for a person of this kind during the block, whose scripts must throw nothing. `options` are those of
        Browser.new_context, such as `color_scheme="dark"` or `bypass_csp=True`."""
        width, height = size
        context = await self.browser.new_context(viewport={"width": width, "height": height}, **options)
        context.set_default_timeout(PATIENCE)
        try:
            opened = OpenPage(await context.new_page(), self.url)
            await opened.page.goto(self.login(kind, name))
            yield opened
            assert not opened.errors, opened.errors
        finally:
            await context.close()


@asynccontextmanager
async def web_mesh(browser: Browser, **options: Any) -> AsyncIterator[WebMesh]:
    """A mesh with the built page during the block. `options` are those of LocalMesh."""
    await asyncio.to_thread(_built)
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder) / "rules.yaml"
        rules.write_text(RULES)
        mesh = LocalMesh(**{"environment": {"orchestrator": {"ARCHON_RULES": str(rules)}}, **options})
        await asyncio.to_thread(mesh.start)
        try:
            yield WebMesh(mesh, browser)
        finally:
            await asyncio.to_thread(mesh.close)


def _built() -> None:
    """Builds the page unless it is current; several workers of pytest build it once."""
    with _alone(Path(tempfile.gettempdir()) / f"archon-web-{build.digest()[:16]}.lock"):
        if not build.is_current():
            build.build()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
