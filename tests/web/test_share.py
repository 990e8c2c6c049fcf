"""Links to a run for people without a login, made, listed and revoked in the page."""

from __future__ import annotations

import asyncio
import sys

import pytest
from playwright.async_api import Page, expect

from archon.principal import Kind
from tests.web.page_mesh import PHONE, WebMesh
from tests.web.test_run import completed

pytestmark = pytest.mark.slow

MAKE = """(runId) => fetch("/share-links", { method: "POST", body: JSON.stringify({ runId }) })
  .then((answer) => answer.json()).then((link) => link.path)"""


async def opened_panel(page: Page) -> None:
    await page.get_by_role("button", name="Share, compare ...").click()


async def test_a_link_is_made_copied_read_without_a_login_and_revoked(web: WebMesh) -> None:
    run_id = await completed(web, "Readers share a book.")
    async with web.logged_in(Kind.OPERATOR, permissions=["clipboard-read", "clipboard-write"]) as opened:
        page = await opened.go(f"/runs/{run_id}")
        await opened_panel(page)
        links = page.get_by_role("list", name="Links").get_by_role("listitem")
        await expect(links).to_have_count(0)
        await page.get_by_label("days").fill("2")
        await page.get_by_role("button", name="Make a link").click()
        await expect(links).to_have_count(1)
        await expect(links).to_contain_text("by operator-of-tests, until")
        await links.get_by_role("button", name="Copy the link").click()
        await expect(links.get_by_role("button", name="Copied")).to_be_visible()
        link = await page.evaluate("navigator.clipboard.readText()")
        assert link == await links.get_by_label("Link").input_value()
        context = await web.browser.new_context(viewport={"width": PHONE[0], "height": PHONE[1]})
        stranger = await context.new_page()
        await stranger.goto(link)
        await expect(stranger.get_by_role("heading", level=1)).to_have_text("Readers share a book.")
        await expect(stranger.get_by_role("button", name="Share, compare ...")).to_have_count(0)
        await links.get_by_role("button", name="Revoke").click()
        await expect(links).to_have_count(0)
        await stranger.reload()
        await expect(stranger.get_by_role("alert")).to_contain_text("revoked")
        await context.close()


async def test_a_viewer_is_offered_no_link(web: WebMesh) -> None:
    run_id = await completed(web)
    async with web.logged_in(Kind.VIEWER) as opened:
        page = await opened.go(f"/runs/{run_id}")
        await opened_panel(page)
        await expect(page.get_by_text("As a file:")).to_be_visible()
        await expect(page.get_by_role("button", name="Make a link")).to_have_count(0)


async def test_the_command_line_revokes_a_link_of_the_page(web: WebMesh, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = await completed(web)
    async with web.logged_in(Kind.OPERATOR) as opened:
        path = await opened.page.evaluate(MAKE, run_id)
        assert (await opened.page.context.request.get(web.url + path)).status == 200
        monkeypatch.setenv("ARCHON_HOME", str(web.mesh.home))
        printed = await run_command("share", "--revoke", web.url + path)
        assert printed == "The link is revoked.\n"
        assert (await opened.page.context.request.get(web.url + path)).status == 404


async def run_command(*arguments: str) -> str:
    """Returns what a command of the command line prints; it runs in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "archon_services.cli", *arguments, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 0
    return output.decode()
