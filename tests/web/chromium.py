"""A Chromium of the system, driven by Playwright."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from playwright.async_api import Browser, async_playwright

from tests.fixtures.require import require

OPTIONS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
"""The sandbox needs a user that is not root; the rest keeps the browser from calling home."""


@asynccontextmanager
async def opened_browser() -> AsyncIterator[Browser]:
    """Runs Chromium during the block. Skips the test, or fails it if ARCHON_REQUIRE has `chromium`, without one."""
    program = require("chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=list(OPTIONS))
        try:
            yield browser
        finally:
            await browser.close()
