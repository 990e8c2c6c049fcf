"""Texts of agents and callers in the page: nothing executes, and the layout holds."""

from __future__ import annotations

from typing import Final

import pytest
from playwright.async_api import Page, expect

from archon import TaskContext
from archon.principal import Kind
from tests.web.agents import serving
from tests.web.page_mesh import WebMesh

pytestmark = pytest.mark.slow

ATTACKS: Final = (
    "<script>window.attacked = 1</script>",
    "<img src=x onerror='window.attacked = 2'>",
    "<svg onload='window.attacked = 3'></svg>",
    "[click](javascript:window.attacked=4)",
    "[data](data:text/html,<script>window.attacked=5</script>)",
    "![image](https://attacker.invalid/pixel)",
    "\u202egnp.exe\u202c \u2066\u0000",
    "{{constructor.constructor('window.attacked=6')()}}",
    "</title></textarea></style><script>window.attacked = 7</script>",
    "<a href='//attacker.invalid' target=_blank>link</a>",
)
TEXT: Final = "\n\n".join(ATTACKS)
LINE: Final = "long" * 262_144


async def assert_harmless(page: Page) -> None:
    """Asserts that no script has run, no element was made from a text, and nothing is wider than the window."""
    assert await page.evaluate("window.attacked") is None
    made = "main script, main iframe, main object, main form[action], main [onerror], main [onload], main img:not([src^='/'])"
    assert await page.locator(made).count() == 0
    links = await page.eval_on_selector_all("main a", "all => all.map(link => link.protocol)")
    assert set(links) <= {"http:", "https:", "mailto:"}
    assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


async def test_texts_of_a_run_are_never_markup(web: WebMesh) -> None:
    async def answer(task: TaskContext) -> str:
        task.write(TEXT)
        return TEXT

    async with serving(web, "hostile", answer), web.client() as client, web.logged_in(Kind.OPERATOR) as opened:
        foreign: list[str] = []
        page = opened.page
        page.on("request", lambda request: foreign.append(request.url) if not request.url.startswith(web.url) else None)
        session = "<img src=x onerror='window.attacked=8'>"
        metadata = {"archon.test.note": TEXT}
        run = await client.submit(TEXT, roles=["hostile"], session_id=session, metadata=metadata)
        await run.result(timeout=60)
        task_id = (await client.get(run.run_id)).tasks[0].task_id
        for tab in ("tasks", "time", "events"):
            await opened.go(f"/runs/{run.run_id}?tab={tab}&task={task_id}&event=1")
            await expect(page.get_by_role("complementary", name="The task")).to_contain_text("Attempts")
            for summary in await page.locator("main summary").all():
                await summary.click()
            await assert_harmless(page)
        await opened.go("/runs")
        await expect(page.locator(f"a[href='/runs/{run.run_id}']")).to_contain_text("<script>")
        await assert_harmless(page)
        assert not foreign, foreign


async def test_a_line_of_a_megabyte_keeps_the_layout(web: WebMesh) -> None:
    async def answer(task: TaskContext) -> str:
        return LINE

    async with serving(web, "wordy", answer), web.client() as client, web.logged_in(Kind.OPERATOR) as opened:
        run = await client.submit(LINE, roles=["wordy"])
        await run.result(timeout=60)
        for path in (f"/runs/{run.run_id}", f"/runs/{run.run_id}?tab=events&event=1", f"/runs?text={run.run_id}"):
            page = await opened.go(path)
            await expect(page.get_by_role("heading", level=1)).to_be_visible()
            await expect(page.locator("main .good").first).to_contain_text("completed")
            await assert_harmless(page)


async def test_addresses_of_the_page_execute_nothing(web: WebMesh) -> None:
    async with web.logged_in(Kind.VIEWER) as opened:
        for path in (
            "/runs?text=<script>window.attacked=1</script>&state=__proto__&since=constructor",
            "/runs/%3Cimg%20src=x%20onerror=window.attacked=2%3E",
            "/runs/x?tab=<b>&task=<script>window.attacked=3</script>",
        ):
            page = await opened.go(path)
            await expect(page.get_by_role("heading", level=1)).to_be_visible()
            await assert_harmless(page)
