"""A page whose gateway dies: it goes on with every event once."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import expect

from archon import TaskContext
from archon.principal import Kind
from tests.web.agents import serving
from tests.web.page_mesh import WebMesh

pytestmark = pytest.mark.slow


async def test_a_killed_gateway_loses_and_doubles_no_event(web: WebMesh) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def wait(task: TaskContext) -> str:
        started.set()
        await go_on.wait()
        return "at last"

    async with serving(web, "patient", wait), web.client() as client, web.logged_in(Kind.OPERATOR) as opened:
        run = await client.submit("wait", roles=["patient"])
        page = await opened.go(f"/runs/{run.run_id}?tab=events")
        rows = page.get_by_role("list", name="Events").get_by_role("listitem")
        await expect(rows.filter(has_text="dispatched")).to_have_count(1)
        await started.wait()
        killed = await asyncio.to_thread(web.mesh.kill, "gateway")
        await expect(page.get_by_text("The connection is lost")).to_be_visible()
        go_on.set()
        await run.result(timeout=60)
        await asyncio.to_thread(lambda: web.mesh.wait("gateway", not_pid=killed))
        await expect(page.get_by_text("at last").first).to_be_visible()
        await expect(page.get_by_text("The connection is lost")).to_have_count(0)
        numbers = [int(text) for text in await rows.locator(".seq").all_inner_texts()]
        last = (await client.get(run.run_id)).proto.last_seq
        assert numbers == list(range(1, last + 1))
