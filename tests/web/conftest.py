"""Fixtures of the web page: one Chromium and one mesh for all tests of a worker."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, expect

from tests.web.chromium import opened_browser
from tests.web.page_mesh import PATIENCE, WebMesh, web_mesh

expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """Chromium; a page of it is a context of its own."""
    expect.set_options(timeout=PATIENCE)
    async with opened_browser() as browser:
        yield browser


@pytest.fixture(scope="package")
async def web(chromium: Browser) -> AsyncIterator[WebMesh]:
    """A mesh with the five roles of `archon up`, and its page. A test leaves its processes as they were."""
    async with web_mesh(chromium) as mesh:
        yield mesh
