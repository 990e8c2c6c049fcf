"""The view of one run."""

from __future__ import annotations

import asyncio
import re

import pytest
from playwright.async_api import Page, expect

from archon import TaskContext
from archon.principal import Kind
from archon_services.local_mesh import Home
from archon_services.local_mesh.tokens import TokenIssuer
from tests.web.agents import serving
from tests.web.page_mesh import PHONE, WebMesh

pytestmark = pytest.mark.slow


async def completed(web: WebMesh, goal: str = "Readers must be able to reserve a book.") -> str:
    async with web.client() as client:
        run = await client.submit(goal, roles=["requirements", "designer"])
        await run.result(timeout=60)
        return run.run_id


async def test_a_run_shows_tasks_time_events_and_a_task(web: WebMesh) -> None:
    run_id = await completed(web)
    async with web.logged_in(Kind.OPERATOR) as opened:
        page = await opened.go(f"/runs/{run_id}")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Readers must be able to reserve a book.")
        await expect(page.get_by_role("group", name="Tasks of the run").get_by_role("button")).to_have_count(2)
        await page.get_by_role("tab", name="Time").click()
        rows = page.get_by_role("list", name="Time of the tasks").get_by_role("button")
        await expect(rows).to_have_count(2)
        await expect(rows.first).to_have_attribute(
            "aria-label", re.compile(r"^requirements: completed, .*critical path")
        )
        await page.get_by_role("tab", name="Events").click()
        await page.get_by_label("Kind").select_option("dispatched")
        await expect(page.get_by_role("list", name="Events").get_by_role("listitem")).to_have_count(2)
        await page.get_by_role("tab", name="Tasks").click()
        await page.get_by_role("button", name=re.compile("^designer: completed")).click()
        panel = page.get_by_role("complementary", name="The task")
        await expect(panel).to_contain_text("Attempts")
        await expect(panel).to_contain_text("the answer of requirements")
        await panel.get_by_text(re.compile("^model ")).first.click()
        await expect(panel).to_contain_text("Prompt as sent")
        await page.reload()
        await expect(panel).to_contain_text("Attempts")


async def test_text_streams_and_a_run_is_paused_resumed_and_cancelled(web: WebMesh) -> None:
    written, go_on = asyncio.Event(), asyncio.Event()

    async def write(task: TaskContext) -> str:
        await written.wait()
        task.write("the first words")
        await go_on.wait()
        return "never"

    async with serving(web, "writing", write), web.client() as client, web.logged_in(Kind.OPERATOR) as opened:
        run = await client.submit("write", roles=["writing"])
        page = await opened.go(f"/runs/{run.run_id}")
        await expect(page.get_by_role("button", name="writing: working")).to_be_visible()  # its events come
        written.set()
        await expect(page.get_by_role("region", name="Text of writing so far")).to_contain_text("the first words")
        await page.get_by_role("button", name="Pause").click()
        await page.get_by_role("button", name="Resume").click()
        await page.get_by_role("button", name="Cancel", exact=True).click()
        await page.get_by_role("button", name="Cancel the run").click()
        await expect(page.locator(".facts .over")).to_contain_text("canceled")
        await expect(page.get_by_role("button", name="Rerun")).to_be_visible()


@pytest.mark.parametrize("kind", [Kind.VIEWER, Kind.AUDITOR])
async def test_readers_see_no_action_and_the_server_refuses_it(web: WebMesh, kind: Kind) -> None:
    run_id = await completed(web)
    async with web.logged_in(kind) as opened:
        page = await opened.go(f"/runs/{run_id}")
        if kind is Kind.VIEWER:
            await expect(page.get_by_role("group", name="Actions")).to_be_visible()
        for name in ("Rerun", "Fork ...", "Mark", "Pause", "Cancel", "New run"):
            await expect(page.get_by_role("button", name=name)).to_have_count(0)
        assert await _status(page, "CancelRun", run_id) == 403


async def _status(page: Page, method: str, run_id: str) -> int:
    script = """async ([method, runId]) => (await fetch(`/archon.api.orchestrator.v1.OrchestratorService/${method}`,
      {method: "POST", headers: {"content-type": "application/json"}, body: JSON.stringify({runId})})).status"""
    return int(await page.evaluate(script, [method, run_id]))


async def test_a_link_opens_the_run_without_a_login_and_without_actions(web: WebMesh) -> None:
    run_id = await completed(web)
    link = TokenIssuer(Home(web.mesh.home)).share(run_id, "default", lifetime=600.0)
    context = await web.browser.new_context()
    try:
        page = await context.new_page()
        await page.goto(f"{web.url}/shared/{link}")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Readers must be able to reserve a book.")
        await page.get_by_role("tab", name="Events").click()
        await expect(page.get_by_role("list", name="Events")).to_contain_text("taskState")
        await expect(page.get_by_role("group", name="Actions")).to_have_count(0)
        answer = await context.request.get(f"{web.url}/shared/{link}", headers={"accept": "application/json"})
        assert (await answer.json())["run"]["runId"] == run_id
        await page.goto(f"{web.url}/shared/{link[:-6]}AAAAAA")
        await expect(page.get_by_role("alert")).to_contain_text("never existed")
    finally:
        await context.close()


async def test_the_view_fits_a_phone(web: WebMesh) -> None:
    run_id = await completed(web, "x" * 5_000)
    async with web.logged_in(Kind.OPERATOR, size=PHONE) as opened:
        for path in (f"/runs/{run_id}", f"/runs/{run_id}?tab=time", f"/runs/{run_id}?tab=events", "/runs"):
            page = await opened.go(path)
            await expect(page.get_by_role("heading", level=1)).to_be_visible()
            width = await page.evaluate("document.documentElement.scrollWidth")
            assert width <= PHONE[0], f"{path} is {width} pixels wide"
