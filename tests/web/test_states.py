"""All states of the views without a violation that axe finds: with data, empty, loading, refused, and cut off."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest
from playwright.async_api import Page, Route, expect

from archon import Question, TaskContext
from archon.principal import Kind
from tests.web.agents import serving
from tests.web.page_mesh import PHONE, WIDE, WebMesh
from tests.web.stepping import plan, step, stepping
from tests.web.test_views import AXE, CHECK

pytestmark = pytest.mark.slow

SCHEMES: Final = pytest.mark.parametrize(
    ("scheme", "size"),
    [
        pytest.param("dark", WIDE, id="dark"),
        pytest.param("light", WIDE, id="light", marks=pytest.mark.search),
        pytest.param("light", PHONE, id="phone", marks=pytest.mark.search),
    ],
)
SERVICES: Final = "**/archon.api.*/**"
VIEWS: Final = (
    "/runs",
    "/inbox",
    "/chat",
    "/fleet",
    "/tools",
    "/memory?part=long-term",
    "/prompts",
    "/learning",
    "/audit",
)


@asynccontextmanager
async def checked(web: WebMesh, scheme: str, size: tuple[int, int]) -> AsyncIterator[tuple[Page, Any]]:
    """A page of an admin, and a function that asserts that its state has no violation and fits the width."""
    async with web.logged_in(Kind.ADMIN, size=size, color_scheme=scheme, bypass_csp=True) as opened:
        await opened.page.add_init_script(path=AXE)

        async def check(state: str) -> None:
            await expect(opened.page.get_by_role("heading", level=1)).to_be_visible()
            assert await opened.page.evaluate(CHECK) == [], state
            assert await opened.page.evaluate("document.documentElement.scrollWidth") <= size[0], state

        yield opened.page, check


@dataclass(frozen=True)
class Runs:
    """A run with a plan in progress, one that has failed, and one that asks for approval."""

    open: str
    failed: str
    asking: str


@pytest.fixture(scope="module")
async def runs(web: WebMesh) -> AsyncIterator[Runs]:
    """The runs of this module."""

    async def fail(task: TaskContext) -> str:
        raise ValueError("the disk is full: " + "x" * 200)

    async def ask(task: TaskContext) -> str | Question:
        return (
            "Paid." if task.answers or task.inputs else Question("Pay?", is_approval=True, subject_json='{"euros": 12}')
        )

    async with (
        stepping(web, "stating", "one") as steps,
        serving(web, "state-failing", fail),
        serving(web, "state-asking", ask),
        web.client() as client,
    ):
        text = plan(step("one", "stating"), step("two", "stating", "one"), step("three", "stating", "two"))
        made = await client.submit("a trip", strategy="plan", plan=text, roles=["stating"], session_id="a session")
        failed = await client.submit("fail", roles=["state-failing"])
        asking = await client.submit("pay", roles=["state-asking"])
        await steps.until_begun("two")
        await failed.result(timeout=60)
        async for view in asking.views():
            if view.questions:
                break
        yield Runs(made.run_id, failed.run_id, asking.run_id)
        for run_id in (made.run_id, asking.run_id):
            await client.cancel(run_id)


@SCHEMES
async def test_no_state_of_a_run_has_a_violation(web: WebMesh, runs: Runs, scheme: str, size: tuple[int, int]) -> None:
    async with checked(web, scheme, size) as (page, check):
        for tab in ("time", "events&event=3", "plan"):
            await page.goto(f"{web.url}/runs/{runs.open}?tab={tab}")
            await check(tab)
        await page.get_by_role("button", name="Edit the plan").click()
        await page.get_by_role("button", name="Add a step").click()
        await check("the edit of the plan")
        await page.get_by_role("tab", name="Tasks").click()
        await page.get_by_role("table", name="Tasks").get_by_role("button").first.click()
        await expect(page.get_by_role("complementary", name="The task")).to_contain_text("Attempts")
        await check("the panel of a task")
        for name in ("Fork ...", "Breakpoints", "Share, compare ...", "Cancel"):
            await page.get_by_role("button", name=name, exact=True).click()
            await check(name)
        await page.goto(f"{web.url}/runs/{runs.failed}")
        await check("a failed run")
        await page.goto(f"{web.url}/runs/{runs.asking}")
        await page.get_by_role("button", name="Modify ...").click()
        await page.get_by_label("In its place, as JSON").fill('{"euros": 13}')
        await check("a changed approval")
        await page.goto(f"{web.url}/runs/none")
        await expect(page.get_by_role("alert")).to_be_visible()
        await check("a run that is not there")


@SCHEMES
async def test_no_empty_view_has_a_violation(web: WebMesh, scheme: str, size: tuple[int, int]) -> None:
    empty = (
        "/runs?text=nothing-has-this-text", "/inbox?question=none", "/chat/designer/none", "/fleet?search=none&role=none", "/tools?search=none",
        "/memory?part=long-term&query=none", "/memory?part=shared&scope=none", "/prompts?run=none", "/audit?identity=none", "/shared/none",
    )  # fmt: skip
    async with checked(web, scheme, size) as (page, check):
        for path in empty:
            await page.goto(web.url + path)
            await expect(page.get_by_text("Loading ...")).to_have_count(0)
            await check(path)
        await page.goto(f"{web.url}/runs")
        await page.get_by_role("button", name="New run").click()
        await check("the form of a new run")


@SCHEMES
async def test_no_view_that_waits_or_fails_has_a_violation(
    web: WebMesh, runs: Runs, scheme: str, size: tuple[int, int]
) -> None:
    held: list[Route] = []

    async def hold(route: Route) -> None:
        held.append(route)

    async with checked(web, scheme, size) as (page, check):
        paths = (*VIEWS, f"/runs/{runs.open}")
        await page.route(SERVICES, hold)
        for path in paths[:3]:
            await page.goto(web.url + path)
            await check(f"{path} while it loads")
        assert held
        await page.unroute(SERVICES)
        await page.route(SERVICES, lambda route: route.abort("connectionrefused"))
        for path in paths:
            await page.goto(web.url + path)
            await check(f"{path} without a connection")
        await page.unroute(SERVICES)
        await page.goto(f"{web.url}/runs")
        await expect(page.get_by_role("table")).to_be_visible()
        await page.route(SERVICES, lambda route: route.abort("connectionrefused"))
        await expect(page.get_by_text("The connection is lost")).to_be_visible()
        await check("a list whose connection is lost")
        await page.unroute(SERVICES)
        await page.context.clear_cookies()
        await expect(page.get_by_text("Your session has ended.")).to_be_visible()
        await check("a session that has ended")
        await page.goto(f"{web.url}/runs")
        await check("no login")


@SCHEMES
async def test_no_report_has_a_violation(web: WebMesh, runs: Runs, scheme: str, size: tuple[int, int]) -> None:
    async with web.client() as client:
        told = await client.submit("Readers must find a prompt.", roles=["requirements"])
        await told.result(timeout=60)
    paths = (
        f"{runs.open}/sources",
        f"{runs.open}/time",
        "none/sources",
        f"{runs.open}/difference?other={runs.failed}",
        f"{runs.open}/prompts",
        f"{told.run_id}/prompts",
        f"{told.run_id}/prompts/1",
    )
    async with checked(web, scheme, size) as (page, check):
        for path in paths:
            await page.goto(f"{web.url}/reports/runs/{path}")
            await check(path)
        await page.get_by_role("button", name="Send").click()
        await expect(page.get_by_role("table", name="Measures of the answers")).to_be_visible()
        await check("a trial")
