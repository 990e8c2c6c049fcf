"""Documents about a run that the gateway renders, as a person reaches them from the page of the run."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from archon.principal import Kind
from tests.web.page_mesh import WebMesh
from tests.web.test_run import completed

pytestmark = pytest.mark.slow


async def test_the_sources_of_an_answer_lead_back_to_the_goal(web: WebMesh) -> None:
    run_id = await completed(web, "Readers must see what an answer rests on.")
    async with web.logged_in(Kind.VIEWER) as opened:
        page = await opened.go(f"/runs/{run_id}")
        await page.get_by_role("table", name="Tasks").get_by_role("button", name="designer").click()
        await page.get_by_role("link", name="all its sources").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(
            re.compile("^Sources of the answer of designer")
        )
        rows = page.get_by_role("list", name="The answer, and below each source its own sources").get_by_role(
            "listitem"
        )
        await expect(rows.first).to_contain_text("designer")
        await expect(rows.filter(has_text="used its answer: requirements")).to_have_count(1)
        await rows.filter(has_text="the goal:").first.get_by_text("the goal:").click()
        await expect(rows.filter(has_text="the goal:").locator("pre").first).to_have_text(
            "Readers must see what an answer rests on."
        )
        image = page.get_by_role("img", name=re.compile("^Drawing"))
        assert await image.evaluate("(image) => image.decode().then(() => image.naturalWidth)") > 100
        await page.get_by_label("answer of").select_option(label="requirements")
        await page.get_by_role("button", name="Show its sources").click()
        await expect(page.get_by_role("heading", level=1)).to_contain_text("requirements")
        await page.get_by_role("link", name="The run", exact=True).click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Readers must see what an answer rests on.")


async def test_the_critical_path_of_the_page_is_that_of_the_report(web: WebMesh) -> None:
    run_id = await completed(web)
    async with web.logged_in(Kind.OPERATOR) as opened:
        page = await opened.go(f"/runs/{run_id}?tab=time")
        rows = page.get_by_role("list", name="Time of the tasks").get_by_role("button")
        await expect(rows.filter(has=page.locator(".critical"))).to_have_count(2)
        await page.get_by_role("link", name="calls and the whole critical path").click()
        table = page.get_by_role("table", name="The critical path")
        await expect(table.get_by_role("link", name="designer").first).to_be_visible()
        await expect(table.get_by_role("cell", name="model", exact=True).first).to_be_visible()


async def test_a_fork_is_compared_with_its_run_and_with_another(web: WebMesh) -> None:
    run_id, other = await completed(web, "Readers reserve a book."), await completed(web, "Readers return a book.")
    async with web.client() as client:
        forked = await client.fork(run_id, goal="Readers reserve two books.")
        await forked.result(timeout=60)
    async with web.logged_in(Kind.OPERATOR) as opened:
        page = await opened.go(f"/runs/{forked.run_id}")
        await page.get_by_role("button", name="Share, compare ...").click()
        await page.get_by_role("link", name="The difference from another run").click()
        runs = page.get_by_role("table", name="Both runs")
        await expect(runs.get_by_role("row", name=re.compile("^goal"))).to_contain_text("Readers reserve two books.")
        await expect(page.get_by_label("compare with")).to_have_value(run_id)
        answer = page.get_by_role("group", name="this run", exact=True).first
        await expect(answer.locator("ins").first).to_contain_text("two")
        await page.get_by_label("or the id of a run").fill(other)
        await page.get_by_role("button", name="Compare").click()
        await expect(runs.get_by_role("row", name=re.compile("^goal"))).to_contain_text("Readers return a book.")
        await page.go_back()
        await expect(runs.get_by_role("row", name=re.compile("^goal"))).to_contain_text("Readers reserve a book.")


async def test_the_document_of_an_ended_session_leads_to_a_login(web: WebMesh) -> None:
    run_id = await completed(web)
    context = await web.browser.new_context()
    page = await context.new_page()
    await page.goto(f"{web.url}/reports/runs/{run_id}/time")
    await expect(page.get_by_role("alert")).to_contain_text("TOKEN_MISSING")
    await expect(page.get_by_role("link", name="Log in")).to_be_visible()
    await context.close()
