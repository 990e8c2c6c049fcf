"""The list of runs."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from archon.principal import Kind
from tests.web.page_mesh import WebMesh

pytestmark = pytest.mark.slow


async def test_the_list_has_a_run_and_its_state(web: WebMesh) -> None:
    async with web.client() as client:
        run = await client.submit("Readers must be able to reserve a book.", roles=["requirements"])
        await run.result(timeout=60)
    async with web.logged_in(Kind.VIEWER) as opened:
        page = await opened.go("/runs")
        row = page.get_by_role("row").filter(has=page.locator(f"a[href='/runs/{run.run_id}']"))
        await expect(row).to_contain_text("Readers must be able to reserve a book.")
        await expect(row).to_contain_text("completed")
