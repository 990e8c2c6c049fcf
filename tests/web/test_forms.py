"""Forms and actions of runs: a new run, a fork, a rerun, breakpoints, marks and ratings."""

from __future__ import annotations

import json
import re

import pytest
from playwright.async_api import Page, Route, expect

from archon.principal import Kind
from archon.types import TaskState
from tests.web.page_mesh import WebMesh
from tests.web.stepping import plan, step, stepping

pytestmark = pytest.mark.slow

SUBMIT = "**/archon.api.orchestrator.v1.OrchestratorService/SubmitRun"


def run_id(page: Page) -> str:
    """Returns the run of the address of a page."""
    return page.url.partition("/runs/")[2].partition("?")[0]


async def until_run(page: Page, other: str = "") -> str:
    """Waits until the page shows a run that is not `other`, and returns its id."""
    await page.wait_for_url(lambda url: "/runs/" in url and (not other or other not in url))
    return run_id(page)


async def test_a_new_run_has_what_the_form_says(web: WebMesh) -> None:
    async with stepping(web, "filling", "") as _, web.client() as client, web.logged_in(Kind.OPERATOR) as opened:
        page = await opened.go("/runs?session=holidays")
        await page.get_by_role("button", name="New run").click()
        await expect(page.get_by_label("Goal")).to_be_focused()
        await expect(page.get_by_role("form").or_(page.locator("form.panel")).get_by_label("Session")).to_have_value(
            "holidays"
        )
        await page.get_by_label("Goal").fill("Fill in a form.")
        await page.get_by_label("Strategy").select_option("one role, which may delegate")
        await page.get_by_label("At most tokens").fill("5000")
        await page.get_by_label("At most US$").fill("0.25")
        await page.get_by_label("At most seconds").fill("90")
        await page.get_by_role("checkbox", name="filling").check()
        async with page.expect_request(SUBMIT) as submitted:
            await page.get_by_role("button", name="Submit").click()
        run = await client.get(await until_run(page))
        assert (run.session_id, [task.role for task in run.tasks]) == ("holidays", ["filling"])
        body = (await submitted.value).post_data_json
        assert body is not None
        assert body["budget"] == {"maxTokens": "5000", "maxCostMicroUsd": "250000"}
        assert body["timeout"] == "90s"
        await expect(page.locator(".facts .good")).to_contain_text("completed")


async def test_bad_input_of_a_new_run_is_not_sent(web: WebMesh) -> None:
    async with web.logged_in(Kind.OPERATOR) as opened:
        page = await opened.go("/runs")
        sent: list[str] = []
        page.on("request", lambda request: sent.append(request.url) if "SubmitRun" in request.url else None)
        await page.get_by_role("button", name="New run").click()
        submit = page.get_by_role("button", name="Submit")
        await expect(submit).to_be_disabled()
        await page.get_by_label("Goal").fill(" \n ")
        await expect(submit).to_be_disabled()
        await page.get_by_label("Goal").fill("Spend nothing.")
        for field, text in (("At most tokens", "many"), ("At most US$", "1,5"), ("At most seconds", "-3")):
            await page.get_by_label(field).fill(text)
            await submit.click()
            assert not await page.get_by_label(field).evaluate("(input) => input.checkValidity()"), field
            await page.get_by_label(field).fill("")
        assert not sent


async def test_a_refused_new_run_keeps_its_text(web: WebMesh) -> None:
    async with web.logged_in(Kind.OPERATOR) as opened:
        page = await opened.go("/runs")
        await page.get_by_role("button", name="New run").click()
        await page.get_by_label("Goal").fill("One role, please.")
        await page.get_by_label("Strategy").select_option("one role, which may delegate")
        await page.get_by_role("checkbox", name="designer").check()
        await page.get_by_role("checkbox", name="planner").check()
        await page.get_by_role("button", name="Submit").click()
        await expect(page.locator(".notice.problem")).to_contain_text("role")
        await expect(page.get_by_label("Goal")).to_have_value("One role, please.")


async def test_a_form_sent_twice_makes_one_run(web: WebMesh) -> None:
    """A double click, and a second try after an answer that was lost."""
    lost: list[str] = []

    async def lose(route: Route) -> None:
        lost.append(await (await route.fetch()).text())
        await route.abort("connectionreset")

    async with stepping(web, "twice", "") as steps, web.client() as client, web.logged_in(Kind.OPERATOR) as opened:
        page = await opened.go("/runs")
        await page.get_by_role("button", name="New run").click()
        await page.get_by_label("Goal").fill("Once.")
        await page.get_by_role("checkbox", name="twice").check()
        await page.route(SUBMIT, lose, times=1)
        await page.get_by_role("button", name="Submit").click()
        await expect(page.locator(".notice.problem")).to_be_visible()
        await page.get_by_role("button", name="Submit").dblclick()
        made = await until_run(page)
        assert json.loads(lost[0])["run"]["runId"] == made
        await client.get(made)
        await expect(page.locator(".facts .good")).to_contain_text("completed")
        assert len(steps.begun) == 1


async def test_a_fork_says_what_it_would_do_and_does_it(web: WebMesh) -> None:
    text = plan(step("draw", "forking"), step("build", "forking", "draw"))
    async with (
        stepping(web, "forking", "draw", "build") as steps,
        web.client() as client,
        web.logged_in(Kind.OPERATOR) as opened,
    ):
        run = await client.submit("a trip", strategy="plan", plan=text, roles=["forking"])
        await run.result(timeout=30)
        page = await opened.go(f"/runs/{run.run_id}")
        await page.get_by_role("button", name="Fork ...").click()
        form = page.locator("form.panel")
        await form.get_by_text("draw", exact=True).click()
        await form.get_by_label("An answer in place of its own").first.fill("Drawn by hand.")
        await form.get_by_role("button", name="What would it do?").click()
        await expect(form.get_by_role("status")).to_contain_text("draw: your answer")
        await expect(form.get_by_role("status")).to_contain_text("build: executed")
        await form.get_by_role("button", name="Fork", exact=True).dblclick()
        made = await until_run(page, run.run_id)
        fork = await client.get(made)
        assert fork.proto.parent_run_id == run.run_id
        await expect(page.locator(".facts .good")).to_contain_text("completed")
        assert steps.begun == ["draw", "build", "build"]
        await expect(page.get_by_role("link", name="another run")).to_have_attribute("href", f"/runs/{run.run_id}")
        await page.get_by_role("button", name="Fork ...").click()
        await page.get_by_label("After event").fill("99999")
        await page.get_by_role("button", name="What would it do?").click()
        await expect(page.locator(".notice.problem")).to_be_visible()


async def test_a_rerun_continues_the_run_once(web: WebMesh) -> None:
    async with stepping(web, "again") as steps, web.client() as client, web.logged_in(Kind.OPERATOR) as opened:
        run = await client.submit("go on", roles=["again"])
        await steps.until_begun("")
        page = await opened.go(f"/runs/{run.run_id}")
        await page.get_by_role("button", name="Cancel", exact=True).click()
        await page.get_by_role("button", name="Let it go on").click()
        await expect(page.get_by_role("button", name="Cancel", exact=True)).to_be_focused()
        await page.get_by_role("button", name="Cancel", exact=True).click()
        await page.get_by_role("button", name="Cancel the run").click()
        await expect(page.locator(".facts .over")).to_contain_text("canceled")
        steps.go_on.set()
        await page.get_by_role("button", name="Rerun").dblclick()
        made = await until_run(page, run.run_id)
        await expect(page.locator(".facts .good")).to_contain_text("completed")
        assert (await client.get(made)).state == TaskState.COMPLETED
        assert len(steps.begun) == 2


async def test_a_paused_run_dispatches_nothing_until_resumed(web: WebMesh) -> None:
    text = plan(step("one", "pausing"), step("two", "pausing", "one"))
    async with stepping(web, "pausing") as steps, web.client() as client, web.logged_in(Kind.OPERATOR) as opened:
        run = await client.submit("a trip", strategy="plan", plan=text, roles=["pausing"])
        await steps.until_begun("one")
        page = await opened.go(f"/runs/{run.run_id}")
        await page.get_by_role("button", name="Pause").click()
        await expect(page.locator(".facts")).to_contain_text("paused")
        steps.go_on.set()
        await expect(page.get_by_role("button", name=re.compile(r"^pausing \(one\): completed"))).to_be_visible()
        assert steps.begun == ["one"]
        await page.get_by_role("button", name="Resume").click()
        await expect(page.locator(".facts .good")).to_contain_text("completed")
        await expect(page.locator(".facts")).not_to_contain_text("paused")
        assert steps.begun == ["one", "two"]


async def test_a_breakpoint_holds_the_run_and_asks(web: WebMesh) -> None:
    text = plan(step("one", "holding"), step("two", "holding", "one"))
    async with stepping(web, "holding") as steps, web.client() as client, web.logged_in(Kind.OPERATOR) as opened:
        run = await client.submit("a trip", strategy="plan", plan=text, roles=["holding"])
        await steps.until_begun("one")
        page = await opened.go(f"/runs/{run.run_id}")
        await page.get_by_role("button", name="Breakpoints").click()
        await page.get_by_role("combobox", name=re.compile("^Hold")).select_option("before the step")
        await page.get_by_label("Name, * for any").fill("two")
        await page.get_by_role("button", name="Add").click()
        await expect(page.get_by_role("button", name="Breakpoints (1)")).to_be_visible()
        steps.go_on.set()
        card = page.get_by_role("article")
        await expect(card).to_contain_text("held at a breakpoint")
        await card.get_by_role("button", name="Approve").click()
        await expect(page.locator(".facts .good")).to_contain_text("completed")


async def test_marks_and_ratings_are_shown_to_others(web: WebMesh) -> None:
    async with stepping(web, "rating", "") as _, web.client() as client, web.logged_in(Kind.OPERATOR) as opened:
        run = await client.submit("rate me", roles=["rating"])
        await run.result(timeout=30)
        page = await opened.go(f"/runs/{run.run_id}")
        await page.get_by_role("button", name="☆ Mark").click()
        await expect(page.get_by_role("button", name="★ Marked")).to_have_attribute("aria-pressed", "true")
        await page.get_by_role("button", name="4 of 5").click()
        await expect(page.get_by_role("button", name="4 of 5")).to_have_attribute("aria-pressed", "true")
        rated = (await client.get(run.run_id)).proto
        assert ([each.stars for each in rated.ratings], len(rated.marks)) == ([4], 1)
        await page.get_by_role("button", name="★ Marked").click()
        await expect(page.get_by_role("button", name="☆ Mark")).to_be_visible()
