"""What comes by itself: changes of the list, the fleet and the inbox, the end of a link, the death of the gateway."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Route, expect

from archon import Question, TaskContext
from archon.principal import Kind
from archon.security.tokens import claims_of
from archon_services.local_mesh import Home
from archon_services.local_mesh.tokens import TokenIssuer
from tests.web.agents import serving
from tests.web.page_mesh import WebMesh
from tests.web.stepping import stepping

pytestmark = pytest.mark.slow


async def test_the_list_follows_new_runs_and_their_states(web: WebMesh) -> None:
    async with stepping(web, "listed") as steps, web.client() as client, web.logged_in(Kind.VIEWER) as opened:
        page = await opened.go("/runs")
        await expect(page.get_by_role("heading", name="Runs")).to_be_visible()
        await page.evaluate("window.same = true")
        run = await client.submit("Appear by yourself.", roles=["listed"])
        row = page.get_by_role("row").filter(has=page.locator(f"a[href='/runs/{run.run_id}']"))
        await expect(row).to_contain_text("Appear by yourself.")
        await expect(row).to_contain_text("working")
        steps.go_on.set()
        await expect(row).to_contain_text("completed")
        assert await page.evaluate("window.same"), "the page was loaded again"


async def test_the_fleet_follows_instances(web: WebMesh) -> None:
    async with web.logged_in(Kind.VIEWER) as opened:
        page = await opened.go("/fleet?role=passing")
        await expect(page.get_by_text("passing has no instance now.")).to_be_visible()
        async with stepping(web, "passing"):
            await expect(page.get_by_role("heading", name="passing")).to_be_visible()
            await expect(page.get_by_role("table", name="Instances").get_by_role("row")).to_have_count(2)
            async with stepping(web, "passing"):
                await expect(page.get_by_role("table", name="Instances").get_by_role("row")).to_have_count(3)
        await expect(page.get_by_text("passing has no instance now.")).to_be_visible()


async def test_an_answer_elsewhere_closes_a_question_in_the_inbox(web: WebMesh) -> None:
    async def ask(task: TaskContext) -> str | Question:
        return "Thank you." if task.inputs else Question("Which one?")

    async with serving(web, "live-asking", ask), web.client() as client, web.logged_in(Kind.OPERATOR) as opened:
        page = await opened.go("/inbox")
        await expect(page.get_by_role("heading", name="Inbox")).to_be_visible()
        run = await client.submit("ask", roles=["live-asking"])
        link = page.locator(f"nav[aria-label='Open questions'] a[href*='{run.run_id}']")
        await link.click()
        await page.get_by_label("Answer").fill("half an answ")
        [question] = (await client.get(run.run_id)).questions
        await client.respond(run.run_id, question.input_id, "another one")
        await expect(page.get_by_text("This question is not open any more")).to_be_visible()
        await expect(link).to_have_count(0)


async def test_a_link_that_is_revoked_ends_the_open_page(web: WebMesh) -> None:
    issuer = TokenIssuer(Home(web.mesh.home))
    async with stepping(web, "linked") as steps, web.client() as client:
        run = await client.submit("Be shared.", roles=["linked"])
        await steps.until_begun("")
        link = issuer.share(run.run_id, "default", lifetime=600.0)
        context = await web.browser.new_context()
        try:
            page = await context.new_page()
            await page.goto(f"{web.url}/shared/{link}?tab=events")
            await expect(page.get_by_role("list", name="Events")).to_contain_text("dispatched")
            issuer.revoke(str(claims_of(link)["jti"]))
            await expect(page.get_by_text("revoked")).to_be_visible()
            steps.go_on.set()
            await run.result(timeout=30)
            assert await page.get_by_role("list", name="Events").get_by_text("result").count() == 0
            await page.reload()
            await expect(page.get_by_role("alert")).to_contain_text(
                "this link has expired, was revoked, or never existed"
            )
        finally:
            await context.close()


async def test_every_view_goes_on_after_the_gateway_was_killed(web: WebMesh) -> None:
    """The list, the fleet, the inbox and a run stay with what they have, say so, and go on without a reload."""
    async with stepping(web, "outliving") as steps, web.client() as client, web.logged_in(Kind.OPERATOR) as opened:
        run = await client.submit("Outlive the gateway.", roles=["outliving"])
        await steps.until_begun("")
        pages = {}
        for path in ("/runs", "/fleet", f"/runs/{run.run_id}", "/chat/outliving/s"):
            page = pages[path] = await opened.page.context.new_page()
            await page.goto(web.url + path)
            await expect(page.get_by_role("heading", level=1)).to_be_visible()
            await page.evaluate("window.same = true")
        await pages["/chat/outliving/s"].get_by_label("Message", exact=True).fill("half a mess")
        killed = await asyncio.to_thread(web.mesh.kill, "gateway")
        for path in ("/fleet", f"/runs/{run.run_id}"):
            await expect(pages[path].get_by_text("The connection is lost")).to_be_visible()
        steps.go_on.set()
        await run.result(timeout=30)
        await asyncio.to_thread(lambda: web.mesh.wait("gateway", not_pid=killed))
        row = pages["/runs"].get_by_role("row").filter(has=pages["/runs"].locator(f"a[href='/runs/{run.run_id}']"))
        await expect(row).to_contain_text("completed")
        await expect(pages[f"/runs/{run.run_id}"].locator(".facts .good")).to_contain_text("completed")
        for page in pages.values():
            await expect(page.get_by_text("The connection is lost")).to_have_count(0)
            assert await page.evaluate("window.same")
        await expect(pages["/chat/outliving/s"].get_by_label("Message", exact=True)).to_have_value("half a mess")


async def test_an_answer_that_was_overtaken_is_not_shown(web: WebMesh) -> None:
    late, ended = asyncio.Event(), asyncio.Event()

    async def held(route: Route) -> None:
        answer = await route.fetch()
        late.set()
        await ended.wait()
        await route.fulfill(response=answer)

    async with stepping(web, "overtaken") as steps, web.client() as client, web.logged_in(Kind.VIEWER) as opened:
        run = await client.submit("Be quick.", roles=["overtaken"])
        await steps.until_begun("")
        page = await opened.go(f"/runs/{run.run_id}")
        await expect(page.locator(".facts .busy")).to_contain_text("working")
        await page.route("**/archon.api.orchestrator.v1.OrchestratorService/GetRun", held, times=1)
        await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        await late.wait()
        steps.go_on.set()
        await expect(page.locator(".facts .good")).to_contain_text("completed")
        async with page.expect_response("**/GetRun"):
            ended.set()
        await page.evaluate("new Promise(requestAnimationFrame)")
        await expect(page.locator(".facts .good")).to_contain_text("completed")


async def test_views_go_on_by_themselves_after_another_login(web: WebMesh) -> None:
    async with stepping(web, "renewed") as steps, web.client() as client, web.logged_in(Kind.OPERATOR) as opened:
        run = await client.submit("Outlast the session.", roles=["renewed"])
        await steps.until_begun("")
        runs, other = await opened.go("/runs"), await opened.page.context.new_page()
        await other.goto(f"{web.url}/runs/{run.run_id}")
        await expect(other.locator(".facts .busy")).to_contain_text("working")
        await runs.context.clear_cookies()
        for page in (runs, other):
            await expect(page.get_by_text("Your session has ended.")).to_be_visible()
        login = await runs.context.new_page()
        await login.goto(web.login(Kind.OPERATOR))
        for page in (runs, other):
            await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
            await expect(page.get_by_text("Your session has ended.")).to_have_count(0)
        steps.go_on.set()
        await expect(other.locator(".facts .good")).to_contain_text("completed")
        row = runs.get_by_role("row").filter(has=runs.locator(f"a[href='/runs/{run.run_id}']"))
        await expect(row).to_contain_text("completed")
