"""The inbox and the chat, with roles that ask, stream, and attack."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import FilePayload, expect

from archon.client import Client, RunHandle, answer_text
from archon.principal import Kind
from tests.web.members import serving_roles
from tests.web.page_mesh import PHONE, OpenPage, WebMesh

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
async def roles(web: WebMesh) -> AsyncIterator[None]:
    """The roles of this module."""
    async with serving_roles(web):
        yield


async def asked(client: Client, role: str) -> RunHandle:
    """Starts a run of a role."""
    return await client.submit("Please.", roles=[role], strategy="agent")


async def opened_question(opened: OpenPage, run_id: str) -> None:
    """Opens the inbox at the question of a run, which comes by itself."""
    page = await opened.go("/inbox")
    link = page.locator(f"nav[aria-label='Open questions'] a[href*='{run_id}']")
    await link.click()


async def test_a_form_is_refused_until_it_is_valid(web: WebMesh) -> None:
    async with web.client() as client, web.logged_in(Kind.OPERATOR) as opened:
        run = await asked(client, "traveller")
        await opened_question(opened, run.run_id)
        page = opened.page
        await page.get_by_role("button", name="Answer").click()
        await expect(page.get_by_text("Some fields are not filled in correctly.")).to_be_visible()
        await page.get_by_label("city", exact=True).fill("Rome")
        await page.get_by_role("textbox", name="nights").fill("3")
        await page.get_by_label("economy").check()
        await page.get_by_role("button", name="Answer").click()
        await expect(page.get_by_text("Answered.")).to_be_visible()
        answer = answer_text(await run.result(timeout=30))
        assert '"city":"Rome"' in answer and '"nights":3' in answer and '"guest"' not in answer


async def test_a_changed_approval_shows_its_difference(web: WebMesh) -> None:
    async with web.client() as client, web.logged_in(Kind.OPERATOR, size=PHONE) as opened:
        run = await asked(client, "payer")
        await opened_question(opened, run.run_id)
        page = opened.page
        await page.get_by_role("button", name="Modify ...").click()
        await page.get_by_label("In its place, as JSON").fill('{\n  "to": "the shop",\n  "euros": 12\n}')
        await expect(page.get_by_role("group", name="The change")).to_contain_text('removed:   "euros": 120')
        await page.get_by_role("button", name="Approve with this change").click()
        await expect(page.get_by_text("Changed and approved.")).to_be_visible()
        assert answer_text(await run.result(timeout=30)).startswith("modify: ")


async def test_a_secret_reaches_the_agent_and_no_journal(web: WebMesh) -> None:
    async with web.client() as client, web.logged_in(Kind.OPERATOR) as opened:
        run = await asked(client, "keeper")
        await opened_question(opened, run.run_id)
        await opened.page.get_by_label("Secret answer").fill("hunter22")
        await opened.page.get_by_role("button", name="Send encrypted").click()
        result = await run.result(timeout=30)
        assert answer_text(result) == "The secret has 8 characters."
        events = [str(event.proto) async for event in run.events()]
        assert events and not any("hunter22" in event for event in events)


async def test_approvers_alone_may_answer(web: WebMesh) -> None:
    async with web.client() as client:
        run = await asked(client, "chooser")
        async with web.logged_in(Kind.OPERATOR, name="mallory") as opened:
            await opened_question(opened, run.run_id)
            await expect(opened.page.get_by_text("Only ann may answer.")).to_be_visible()
            await expect(opened.page.get_by_role("button", name="Answer")).to_have_count(0)
        async with web.logged_in(Kind.OPERATOR, name="ann") as opened:
            await opened_question(opened, run.run_id)
            await opened.page.get_by_label("green").check()
            await opened.page.get_by_role("button", name="Answer").click()
            assert answer_text(await run.result(timeout=30)) == "Chosen: green"


async def test_the_title_counts_open_questions(web: WebMesh) -> None:
    async with web.client() as client, web.logged_in(Kind.VIEWER) as opened:
        run = await asked(client, "painter")
        await opened.go("/fleet")
        await expect(opened.page).to_have_title("(1) Fleet · Archon")
        await client.cancel(run.run_id)
        await expect(opened.page).to_have_title("Fleet · Archon")


async def test_a_chat_goes_on_when_its_page_is_opened_again(web: WebMesh) -> None:
    async with web.logged_in(Kind.OPERATOR) as opened:
        page = await opened.go("/chat/talker")
        await page.get_by_label("Message", exact=True).fill("Which roles are there?")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="The plan")).to_be_visible()
        await page.reload()
        await expect(page.get_by_role("table").get_by_role("cell", name="designer")).to_be_visible()
        await page.get_by_role("button", name="Good answer").click()
        await expect(page.get_by_role("button", name="Good answer")).to_have_attribute("aria-pressed", "true")
        await expect(page.get_by_text("Which roles are there?")).to_be_visible()
        link = page.get_by_role("link", name="page", exact=True)
        assert "noopener" in (await link.get_attribute("rel") or "")


async def test_a_chat_stops_its_run(web: WebMesh) -> None:
    async with web.logged_in(Kind.OPERATOR) as opened:
        page = await opened.go("/chat/walker")
        await page.get_by_label("Message", exact=True).fill("Go")
        await page.keyboard.press("Enter")
        # Pieces of a text may be dropped under load: any line shows that it is shown while it is written.
        await expect(page.get_by_text(re.compile(r"^line \d+$")).first).to_be_visible()
        await page.get_by_role("button", name="Stop").click()
        await expect(page.get_by_text("Stopped.")).to_be_visible()


@pytest.mark.parametrize("size", [(1280, 800), PHONE])
async def test_texts_of_agents_are_never_markup(web: WebMesh, size: tuple[int, int]) -> None:
    async with web.logged_in(Kind.OPERATOR, size=size) as opened:
        page = await opened.go("/chat/attacker")
        file = FilePayload(name="a\u202egnp.html", mimeType="text/html", buffer=b"<script>window.hacked = 1</script>")
        await page.set_input_files("input[type=file]", [file])
        await page.get_by_label("Message", exact=True).fill("<img src=x onerror=window.hacked=1>")
        await page.keyboard.press("Enter")
        await page.get_by_role("radio", name="no", exact=True).check()
        await page.get_by_role("button", name="Answer").click()
        await expect(page.get_by_role("button", name="Good answer")).to_be_visible()
        await expect(page.get_by_text("<img src=x onerror=window.hacked=1>", exact=True)).to_be_visible()
        await expect(page.get_by_role("link", name="a_gnp.html")).to_have_attribute("download", "a_gnp.html")
        assert await page.evaluate("window.hacked") is None
        assert await page.locator("main img, main script, main a[href^='javascript' i]").count() == 0
        assert await page.evaluate("document.documentElement.scrollWidth") <= size[0]
