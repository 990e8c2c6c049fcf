"""Bugs that users reported of pages like this one: unknown events, odd ids, storms of requests, lost texts, wrong clocks.

Reports: temporalio/web 87, temporalio/ui 2129, apache/airflow 42679, danny-avila/LibreChat 4794, argoproj/argo-workflows 11326,
argoproj/argo-cd 20106, grafana/grafana 30120 and 45617, prefect-archive/legacy-ui 637 (in test_forms), canonical/lxd-ui 1307,
openshift/origin 2568, StackStorm/st2web 366, PrefectHQ/prefect 6208, OpenFn/lightning 4983.
"""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

import pytest
from playwright.async_api import CDPSession, Page, Request, Route, expect

from archon.principal import Kind
from tests.web.page_mesh import WebMesh
from tests.web.stepping import stepping

pytestmark = pytest.mark.search

GET_RUN: Final = "**/archon.api.orchestrator.v1.OrchestratorService/GetRun"
SECONDS: Final = re.compile(r"^\d+(\.\d)? m?s$")


class Requests:
    """The calls that a page makes."""

    def __init__(self, page: Page) -> None:
        self.paths: list[str] = []
        page.on("request", self._made)

    def _made(self, request: Request) -> None:
        self.paths.append(request.url)

    def clear(self) -> None:
        self.paths.clear()


async def ended_run(web: WebMesh, role: str = "reported", **options: Any) -> str:
    """Returns the id of a run that has completed."""
    async with stepping(web, role, "") as _, web.client() as client:
        run = await client.submit("Report a bug.", roles=[role], **options)
        await run.result(timeout=30)
        return run.run_id


async def test_events_and_states_of_a_newer_release_are_shown(web: WebMesh) -> None:
    run_id = await ended_run(web)
    stream: list[str] = []

    async def newer_events(route: Route) -> None:
        answer = await route.fetch()
        text = await answer.text()
        last = max(int(line.partition(":")[2]) for line in text.splitlines() if line.startswith("id:"))
        event = {"seq": str(last + 1), "time": "2026-01-01T00:00:00Z", "teleported": {"to": "mars"}, "flavour": 7}
        state = {"seq": str(last + 2), "time": "2026-01-01T00:00:00Z", "taskState": {"state": "TASK_STATE_QUANTUM"}}
        more = "".join(f"id: {each['seq']}\ndata: {json.dumps(each)}\n\n" for each in (event, state))
        head, _, _ = text.partition("event: end")
        stream.append(more)
        await route.fulfill(response=answer, body=head + more + "event: end\ndata: {}\n\n")

    async def newer_run(route: Route) -> None:
        answer = await route.fetch()
        run = await answer.json()
        run["run"] |= {"state": "TASK_STATE_QUANTUM", "strategy": "STRATEGY_SWARM", "hologram": {"x": 1}}
        await route.fulfill(response=answer, json=run)

    async with web.logged_in(Kind.OPERATOR) as opened:
        await opened.page.route("**/events/runs/**", newer_events)
        await opened.page.route(GET_RUN, newer_run)
        page = await opened.go(f"/runs/{run_id}?tab=events")
        await expect(page.get_by_role("list", name="Events")).to_contain_text("unknown")
        await expect(page.locator(".facts")).to_contain_text("unknown")
        await page.get_by_role("list", name="Events").get_by_text("unknown").first.click()
        for tab in ("Time", "Tasks"):
            await page.get_by_role("tab", name=tab).click()
            await expect(page.get_by_role("tabpanel", name=tab)).to_contain_text("reported")
        assert stream


@pytest.mark.parametrize(
    "path", ["/runs/%", "/runs/%E0%A4%A", "/runs/a%2Fb", "/runs/%00", "/chat/%25/%", "/inbox/%", "/fleet?role=%"]
)
async def test_an_address_that_is_not_encoded_well_says_so(web: WebMesh, path: str) -> None:
    async with web.logged_in(Kind.OPERATOR) as opened:
        page = await opened.go(path)
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        await expect(page.get_by_text("Loading ...")).to_have_count(0)


async def test_ids_with_any_characters_are_links(web: WebMesh) -> None:
    session = "a/b?c=d&e#f%2F 100% ünï \u65e5\u672c"
    run_id = await ended_run(web, "odd", session_id=session)
    async with web.logged_in(Kind.OPERATOR) as opened:
        page = await opened.go(f"/runs/{run_id}")
        await page.locator(".facts").get_by_role("link", name=session).click()
        await expect(page.get_by_label("Session")).to_have_value(session)
        await expect(page.get_by_role("table").get_by_role("row")).to_have_count(2)
        await page.reload()
        await expect(page.get_by_role("table").locator(f"a[href='/runs/{run_id}']")).to_be_visible()
        await page.goto(f"{web.url}/chat/odd/{quote(session, safe='')}")
        await expect(page.get_by_role("region", name="Message and answer")).to_contain_text("all is done")


async def test_a_session_that_ends_loses_no_text_and_makes_no_storm(web: WebMesh) -> None:
    async with stepping(web, "expiring") as steps, web.client() as client, web.logged_in(Kind.OPERATOR) as opened:
        run = await client.submit("wait", roles=["expiring"])
        await steps.until_begun("")
        page = await opened.go("/runs")
        await page.get_by_role("button", name="New run").click()
        await page.get_by_label("Goal").fill("A long text that took an hour.")
        other = await page.context.new_page()
        await other.goto(f"{web.url}/runs/{run.run_id}")
        await expect(other.locator(".facts .busy")).to_contain_text("working")
        await page.context.clear_cookies()
        await page.get_by_role("checkbox", name="expiring").check()
        await page.get_by_role("button", name="Submit").click()
        await expect(page.get_by_text("Your session has ended.")).to_be_visible()
        killed = await asyncio.to_thread(web.mesh.kill, "gateway")  # its streams end, and begin again without a session
        await expect(other.get_by_text("Your session has ended.")).to_be_visible()
        for each in (page, other):
            await each.clock.install()
        await asyncio.to_thread(lambda: web.mesh.wait("gateway", not_pid=killed))
        requests = [Requests(each) for each in (page, other)]
        for each in (page, other):
            await each.clock.run_for(600_000)
        assert [each.paths for each in requests] == [[], []]
        login = await page.context.new_page()
        await login.goto(web.login(Kind.OPERATOR))
        await page.get_by_role("button", name="I have logged in").click()
        await expect(page.get_by_text("Your session has ended.")).to_have_count(0)
        await expect(page.get_by_label("Goal")).to_have_value("A long text that took an hour.")
        await other.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        await expect(other.get_by_text("Your session has ended.")).to_have_count(0)
        steps.go_on.set()
        await run.result(timeout=30)
        await other.clock.run_for(60_000)
        await expect(other.locator(".facts .good")).to_contain_text("completed")


async def test_a_gateway_that_is_away_at_first_is_asked_again(web: WebMesh) -> None:
    async with web.logged_in(Kind.OPERATOR) as opened:
        page = opened.page
        await page.route("**/session", lambda route: route.fulfill(status=503, body="starting"))
        await opened.go("/runs")
        await expect(page.get_by_text("The gateway does not serve this page now (503).")).to_be_visible()
        await page.unroute("**/session")
        await expect(page.get_by_role("heading", name="Runs")).to_be_visible()


async def test_a_page_without_https_submits_and_says_what_it_cannot_do(web: WebMesh) -> None:
    """A host of the local network by plain http: no crypto.randomUUID, no clipboard."""
    async with web.logged_in(Kind.OPERATOR) as opened:
        page = opened.page
        await page.add_init_script(
            """Object.defineProperty(window, "isSecureContext", {value: false});
            Object.defineProperty(navigator, "clipboard", {value: undefined});
            crypto.randomUUID = undefined;"""
        )
        async with stepping(web, "insecure", "") as _:
            await opened.go("/runs")
            await page.get_by_role("button", name="New run").click()
            await page.get_by_label("Goal").fill("Without https.")
            await page.get_by_role("checkbox", name="insecure").check()
            await page.get_by_role("button", name="Submit").click()
            await expect(page.locator(".facts .good")).to_contain_text("completed")
            await page.get_by_role("button", name="Share, compare ...").click()
            await page.get_by_role("button", name="Copy the command").first.click()
            await expect(page.locator(".notice.problem")).to_contain_text("https")
            await page.get_by_role("button", name="Fork ...").click()
            await page.get_by_role("button", name="Fork", exact=True).click()
            await expect(page.get_by_role("link", name="another run")).to_be_visible()


@pytest.mark.parametrize("hours", [-3, 3])
async def test_a_clock_that_is_wrong_shows_the_right_ages(web: WebMesh, hours: int) -> None:
    async with stepping(web, "skewed") as steps, web.client() as client, web.logged_in(Kind.OPERATOR) as opened:
        run = await client.submit("What time is it?", roles=["skewed"])
        await steps.until_begun("")
        page = opened.page
        await page.clock.install(time=datetime.now(UTC) + timedelta(hours=hours))
        await page.clock.resume()
        await opened.go(f"/runs/{run.run_id}?tab=time")
        await expect(page.get_by_role("list", name="Time of the tasks").get_by_role("button")).to_have_count(1)
        facts = await page.locator(".facts").inner_text()
        assert " h" not in facts and " d" not in facts and "-" not in facts.partition("session")[0], facts
        await opened.go("/runs?since=1h")
        row = page.get_by_role("row").filter(has=page.locator(f"a[href='/runs/{run.run_id}']"))
        await expect(row.get_by_role("cell").nth(2)).to_have_text(SECONDS)
        await expect(row.get_by_role("cell").last).to_have_text(SECONDS)


async def test_a_connection_that_died_in_a_sleep_begins_anew(web: WebMesh) -> None:
    """The stream looks open and brings nothing, as after a sleep of the machine."""
    hung: list[Route] = []

    async def hang(route: Route) -> None:
        hung.append(route)

    async with stepping(web, "sleeping") as steps, web.client() as client, web.logged_in(Kind.OPERATOR) as opened:
        run = await client.submit("sleep", roles=["sleeping"])
        await steps.until_begun("")
        page = opened.page
        await page.route("**/events/runs/**", hang, times=1)
        async with page.expect_request("**/events/runs/**"):
            await opened.go(f"/runs/{run.run_id}?tab=events")
        await expect(page.locator(".facts .busy")).to_contain_text("working")
        steps.go_on.set()
        await run.result(timeout=30)
        assert hung
        await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        await expect(page.locator(".facts .good")).to_contain_text("completed")
        await expect(page.get_by_role("list", name="Events")).to_contain_text("result")


async def test_the_back_button_brings_filters_and_place_back(web: WebMesh) -> None:
    run_id = await ended_run(web, "returning", session_id="back and forth")
    async with web.logged_in(Kind.OPERATOR) as opened:
        page = await opened.go("/runs")
        await page.get_by_label("Search").fill("report a bug")
        await page.get_by_label("State").select_option("completed")
        await page.get_by_label("Session").fill("back and forth")
        await expect(page.get_by_role("table").get_by_role("row")).to_have_count(2)
        address = page.url
        assert "text=report%20a%20bug" in address and "state=completed" in address
        await page.locator(f"a[href='/runs/{run_id}']").click()
        await page.get_by_role("tab", name="Events").click()
        await expect(page.get_by_role("tabpanel", name="Events")).to_be_visible()
        await page.go_back()
        assert page.url == address
        await expect(page.get_by_label("Search")).to_have_value("report a bug")
        await expect(page.get_by_label("State")).to_have_value("completed")
        await expect(page.get_by_role("table").get_by_role("row")).to_have_count(2)
        await page.go_forward()
        await expect(page.get_by_role("tab", name="Events")).to_have_attribute("aria-selected", "true")


async def test_a_text_that_is_being_typed_is_no_filter_of_another_view(web: WebMesh) -> None:
    run_id = await ended_run(web, "typing")
    async with web.logged_in(Kind.OPERATOR) as opened:
        page = await opened.go("/runs")
        link = page.locator(f"a[href='/runs/{run_id}']")
        await expect(link).to_be_visible()
        await page.clock.install()
        await page.get_by_label("Search").fill("typ")
        await link.click()
        await page.clock.run_for(5_000)
        await expect(page.get_by_role("tab", name="Tasks")).to_be_visible()
        assert page.url.endswith(f"/runs/{run_id}")


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"])
async def test_times_of_the_audit_log_are_of_the_readers_zone(web: WebMesh, zone: str) -> None:
    """Also in the hour that a change to winter time repeats: the zone stands with the time."""
    entry = {"time": "2026-11-01T06:30:00Z", "identity": "ann", "action": "run.cancel"}
    earlier = entry | {"time": "2026-11-01T05:30:00Z"}
    async with web.logged_in(Kind.AUDITOR, timezone_id=zone, locale="en-GB") as opened:
        page = opened.page
        bodies: list[Any] = []

        async def answer(route: Route) -> None:
            bodies.append(route.request.post_data_json)
            await route.fulfill(json={"entries": [entry, earlier]})

        await page.route("**/*.AuditService/ListEntries", answer)
        await opened.go("/audit")
        cells = page.get_by_role("table").locator("td.time")
        await expect(cells).to_have_count(2)
        texts = await cells.all_inner_texts()
        assert len(set(texts)) == 2, texts
        await page.get_by_label("from").fill("2026-07-01T12:00")
        await page.get_by_role("button", name="Filter").click()
        expected = {"America/New_York": "16:00", "Asia/Kolkata": "06:30", "Australia/Lord_Howe": "01:30"}[zone]
        async with asyncio.timeout(10):
            while not any((body or {}).get("startTime") for body in bodies):
                await page.evaluate("new Promise(requestAnimationFrame)")
        assert bodies[-1]["startTime"] == f"2026-07-01T{expected}:00Z"


async def test_hours_of_an_open_list_keep_the_memory_of_the_page(web: WebMesh) -> None:
    await ended_run(web, "remembered")
    async with web.logged_in(Kind.OPERATOR) as opened:
        page = await opened.go("/runs")
        await expect(page.get_by_role("table").get_by_role("row").nth(1)).to_be_visible()
        session = await page.context.new_cdp_session(page)
        await page.clock.install()

        async def lived(minutes: int) -> dict[str, float]:
            """Lets minutes pass and opens each view, and returns the figures of the page after that."""
            for _ in range(minutes * 4):
                await page.clock.run_for(15_000)
            for name in ("Fleet", "Inbox", "Chat", "Tools", "Memory", "Prompts", "Learning", "Runs"):
                await page.get_by_role("navigation", name="Views").get_by_role("link", name=name).click()
                await expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()
                await page.clock.run_for(3_000)
            return await figures(session)

        await lived(2)
        first = await lived(2)
        last = await lived(10)
        for name, spare in (("Nodes", 300), ("JSEventListeners", 50), ("Documents", 5)):
            assert last[name] <= first[name] + spare, (name, first, last)
        assert last["JSHeapUsedSize"] <= first["JSHeapUsedSize"] * 1.25 + 1_000_000, (first, last)


async def figures(session: CDPSession) -> dict[str, float]:
    """Returns the figures of a page after its garbage was collected: twice, since nodes of a view that has gone may
    wait for the first one to end."""
    for _ in range(2):
        await session.send("HeapProfiler.collectGarbage")
    await session.send("Performance.enable")
    answer = await session.send("Performance.getMetrics")
    return {each["name"]: each["value"] for each in answer["metrics"]}


async def test_a_question_with_a_far_end_waits_in_peace(web: WebMesh) -> None:
    """Timers of browsers have 31 bits of milliseconds, 24.8 days: a longer one fires at once, again and again."""
    async with web.logged_in(Kind.OPERATOR) as opened:
        page = opened.page
        await page.add_init_script(
            """window.waits = []; const plain = window.setTimeout;
            window.setTimeout = (act, ms, ...rest) => { window.waits.push(ms ?? 0); return plain(act, ms, ...rest); };"""
        )
        question = {
            "runId": "r", "inputId": "q", "role": "far", "prompt": [{"text": "In a year?"}],
            "createTime": "2026-01-01T00:00:00Z", "expireTime": "2036-01-01T00:00:00Z",
        }  # fmt: skip
        await page.route(
            "**/*.OrchestratorService/ListQuestions", lambda route: route.fulfill(json={"questions": [question]})
        )
        await opened.go("/inbox")
        await expect(page.get_by_role("article")).to_contain_text("In a year?")
        await expect(page.locator(".left")).to_contain_text(" d ")
        assert max(await page.evaluate("window.waits")) < 2**31
