"""Recorded prompts, and trials of them, as a person makes them in a browser."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from archon.principal import Kind
from tests.web.page_mesh import WebMesh
from tests.web.test_run import completed

pytestmark = pytest.mark.slow


async def test_a_prompt_is_changed_sent_and_compared(web: WebMesh) -> None:
    run_id = await completed(web, "Readers must find a prompt.")
    async with web.logged_in(Kind.OPERATOR) as opened:
        page = await opened.go("/prompts")
        await page.get_by_role("link", name=run_id).click()
        await page.get_by_role("link", name="designer, call 1 of 1").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("designer, call 1 of 1")
        message = page.get_by_label(re.compile(r"^\d+\. user")).last
        await expect(message).to_have_value(re.compile("Readers must find a prompt"))
        await message.fill("Readers must find two prompts, and compare their answers.")
        await page.get_by_role("button", name="Send").click()
        measures = page.get_by_role("table", name="Measures of the answers")
        await expect(measures.get_by_role("row")).to_have_count(3)
        await expect(page.get_by_role("heading", name="Answer 1, compared with the recorded one")).to_be_visible()
        await expect(page.locator("ins").first).to_be_visible()
        await expect(message).to_have_value("Readers must find two prompts, and compare their answers.")
        await message.fill("\n  First an empty line.\n")
        await page.get_by_role("button", name="Send").click()
        await expect(page.get_by_text("First an empty line.").first).to_be_visible()
        await expect(message).to_have_value("\n  First an empty line.\n")
        async with web.client() as client:
            assert (await client.get(run_id)).usage.model_calls == 2, "the run is as it was"


async def test_a_viewer_reads_prompts_and_sends_none(web: WebMesh) -> None:
    run_id = await completed(web)
    async with web.logged_in(Kind.VIEWER) as opened:
        page = await opened.go("/prompts")
        await page.get_by_label("run", exact=True).fill(run_id)
        await page.get_by_role("button", name="Show its model calls").click()
        await page.get_by_role("link", name="designer, call 1 of 1").click()
        await expect(page.get_by_role("heading", name="The recorded answer")).to_be_visible()
        await expect(page.get_by_role("button", name="Send")).to_have_count(0)
        await expect(page.get_by_role("textbox")).to_have_count(0)
