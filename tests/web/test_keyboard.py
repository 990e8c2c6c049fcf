"""The page without a mouse, at 200 % and more, with less motion, and in the colours of the system."""

from __future__ import annotations

import re
from typing import Final

import pytest
from playwright.async_api import Locator, Page, expect

from archon import Question, TaskContext
from archon.principal import Kind
from tests.web.agents import serving
from tests.web.page_mesh import WebMesh
from tests.web.stepping import plan, step, stepping

pytestmark = pytest.mark.slow

MOST_STOPS: Final = 80


async def tab_to(page: Page, target: Locator, *, back: bool = False) -> None:
    """Presses Tab until the element has the focus, which is visible at each stop."""
    for _ in range(MOST_STOPS):
        if await target.evaluate("(element) => document.activeElement === element"):
            return
        await page.keyboard.press("Shift+Tab" if back else "Tab")
        seen = await page.evaluate(
            """() => { const one = document.activeElement; if (one === document.body) return true;
            const style = getComputedStyle(one), shape = one.querySelector?.("rect");
            return style.outlineStyle !== "none" || (shape && getComputedStyle(shape).strokeWidth === "2px"); }"""
        )
        where = await page.evaluate("document.activeElement.outerHTML.slice(0, 200)")
        assert seen, f"the focus is not visible: {where}"
    raise AssertionError(f"no way by Tab to {target}")


async def press(page: Page, target: Locator, key: str = "Enter") -> None:
    """Goes to an element by Tab and presses a key there."""
    await tab_to(page, target)
    await page.keyboard.press(key)


async def test_a_run_is_submitted_and_opened_by_keyboard(web: WebMesh) -> None:
    async with stepping(web, "keyed", "") as _, web.logged_in(Kind.OPERATOR) as opened:
        page = await opened.go("/runs")
        await expect(page.get_by_role("heading", name="Runs")).to_be_visible()
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        await page.keyboard.press("Enter")
        new = page.get_by_role("button", name="New run")
        await press(page, new)
        await expect(page.get_by_label("Goal")).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(page.get_by_label("Goal")).to_have_count(0)
        await expect(new).to_be_focused()
        await page.keyboard.press("Enter")
        await page.keyboard.type("By keyboard.")
        await press(page, page.get_by_role("checkbox", name="keyed"), "Space")
        await press(page, page.get_by_role("button", name="Submit"))
        await expect(page.locator(".facts .good")).to_contain_text("completed")
        await page.go_back()
        await expect(page.get_by_role("heading", name="Runs")).to_be_visible()
        await tab_to(page, page.get_by_label("Search"))
        await page.keyboard.type("by keyb")
        await expect(page.get_by_role("table").get_by_role("row")).to_have_count(2)
        await press(page, page.get_by_role("table").get_by_role("link").first)
        await expect(page.locator("#content")).to_be_focused()
        assert await page.evaluate("window.scrollY") == 0


@pytest.mark.search
async def test_all_actions_of_a_run_work_by_keyboard(web: WebMesh) -> None:
    async with stepping(web, "keys") as steps, web.client() as client, web.logged_in(Kind.OPERATOR) as opened:
        run = await client.submit(
            "a trip", strategy="plan", plan=plan(step("one", "keys"), step("two", "keys", "one")), roles=["keys"]
        )
        await steps.until_begun("one")
        page = await opened.go(f"/runs/{run.run_id}")
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        for name in ("Fork ...", "Breakpoints", "Share, compare ...", "Cancel"):
            button = page.get_by_role("button", name=name, exact=True)
            await button.focus()
            await page.keyboard.press("Enter")
            await expect(button).to_have_attribute("aria-expanded", "true")
            await page.keyboard.press("Tab")
            if name != "Cancel":
                while not await page.evaluate("document.activeElement.closest('.panel') !== null"):
                    await page.keyboard.press("Tab")
            else:
                await tab_to(page, page.get_by_role("button", name="Cancel the run"))
            await page.keyboard.press("Escape")
            await expect(button).to_have_attribute("aria-expanded", "false")
            await expect(button).to_be_focused()
        await press(page, page.get_by_role("button", name="Pause"))
        await press(page, page.get_by_role("button", name="Resume"))
        await press(page, page.get_by_role("button", name="☆ Mark"))
        await expect(page.get_by_role("button", name="★ Marked")).to_be_focused()
        task = page.get_by_role("button", name=re.compile(r"^keys \(one\): working"))
        await press(page, task)
        panel = page.get_by_role("complementary", name="The task")
        await expect(panel).to_contain_text("Attempts")
        await tab_to(page, panel.get_by_role("button", name="Close"))
        await page.keyboard.press("Enter")
        await expect(panel).to_have_count(0)
        await expect(task).to_be_focused()
        await tab_to(page, page.get_by_role("tab", name="Tasks"), back=True)
        for name in ("Time", "Plan", "Events", "Tasks"):
            await page.keyboard.press("ArrowRight")
            await expect(page.get_by_role("tab", name=name)).to_be_focused()
            await expect(page.get_by_role("tab", name=name)).to_have_attribute("aria-selected", "true")
        await page.keyboard.press("ArrowLeft")
        await tab_to(page, page.get_by_role("list", name="Events").get_by_role("button").first)
        await page.keyboard.press("Enter")
        await expect(page.locator("pre.panel")).to_contain_text('"seq"')


@pytest.mark.search
async def test_a_plan_is_edited_by_keyboard(web: WebMesh) -> None:
    async with stepping(web, "keys-plan") as steps, web.client() as client, web.logged_in(Kind.OPERATOR) as opened:
        run = await client.submit(
            "a trip",
            strategy="plan",
            plan=plan(step("one", "keys-plan"), step("two", "keys-plan", "one")),
            roles=["keys-plan"],
        )
        await steps.until_begun("one")
        page = await opened.go(f"/runs/{run.run_id}?tab=plan")
        await press(page, page.get_by_role("button", name="Edit the plan"))
        await expect(page.get_by_role("button", name="Add a step")).to_be_focused()
        await press(page, page.get_by_role("button", name=re.compile("^two:")), "Space")
        await tab_to(page, page.get_by_label("Description"))
        await page.keyboard.press("Control+A")
        await page.keyboard.type("Changed by keys.")
        await press(page, page.get_by_role("button", name="Add a step"))
        await tab_to(page, page.get_by_label("Description"))
        await page.keyboard.type("Added by keys.")
        save = page.get_by_role("button", name="Save")
        await tab_to(page, save, back=True)
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("The plan was changed.")).to_be_visible()
        await expect(page.get_by_role("button", name="Edit the plan")).to_be_focused()
        await expect(page.get_by_role("table", name="Steps")).to_contain_text("Added by keys.")


@pytest.mark.search
async def test_a_question_is_answered_by_keyboard(web: WebMesh) -> None:
    async def ask(task: TaskContext) -> str | Question:
        if task.inputs or task.answers:
            return "Thank you."
        return Question("May it?", is_approval=True) if task.text == "approval" else Question("Which?")

    async with serving(web, "keys-asking", ask), web.client() as client, web.logged_in(Kind.OPERATOR) as opened:
        runs = [await client.submit(goal, roles=["keys-asking"]) for goal in ("text", "approval")]
        page = await opened.go("/inbox")
        link = page.locator(f"nav[aria-label='Open questions'] a[href*='{runs[0].run_id}']")
        await expect(link).to_be_visible()
        await press(page, link)
        await tab_to(page, page.get_by_label("Answer"))
        await page.keyboard.type("blue")
        await page.keyboard.press("Control+Enter")
        await expect(page.get_by_role("group", name="The question")).to_be_focused()
        await press(page, page.locator(f"nav[aria-label='Open questions'] a[href*='{runs[1].run_id}']"))
        reject = page.get_by_role("button", name="Reject ...")
        await press(page, reject)
        await tab_to(page, page.get_by_label("Reason (optional)"))
        await page.keyboard.press("Escape")
        await expect(reject).to_be_focused()
        await tab_to(page, page.get_by_role("button", name="Approve"), back=True)
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("Approved.")).to_be_visible()
        for run in runs:
            await run.result(timeout=30)


async def test_a_chat_works_by_keyboard(web: WebMesh) -> None:
    async with stepping(web, "keys-chat", "") as _, web.logged_in(Kind.OPERATOR) as opened:
        page = await opened.go("/chat")
        await tab_to(page, page.get_by_label("search roles"))
        await page.keyboard.type("keys-chat")
        await press(page, page.get_by_role("main").get_by_role("link", name="keys-chat").first)
        await tab_to(page, page.get_by_label("Message", exact=True))
        await page.keyboard.type("one")
        await page.keyboard.press("Shift+Enter")
        await page.keyboard.type("two")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("all is done")).to_be_visible()
        await expect(page.get_by_label("Message", exact=True)).to_be_focused()
        await expect(page.locator(".said")).to_contain_text("one\ntwo")
        await tab_to(page, page.get_by_role("button", name="Good answer"), back=True)
        await page.keyboard.press("Space")
        await expect(page.get_by_role("button", name="Good answer")).to_have_attribute("aria-pressed", "true")


PATHS: Final = (
    "/runs",
    "/runs/{run}",
    "/runs/{run}?tab=time",
    "/runs/{run}?tab=plan",
    "/runs/{run}?tab=events",
    "/inbox",
    "/chat",
    "/fleet?role=designer",
    "/tools",
    "/memory?part=long-term",
    "/prompts",
    "/learning",
    "/audit",
)


@pytest.mark.search
@pytest.mark.parametrize(("width", "height"), [(640, 400), (320, 256)], ids=["200 %", "400 %"])
async def test_a_page_that_is_zoomed_scrolls_in_one_direction(web: WebMesh, width: int, height: int) -> None:
    async with stepping(web, "zooming", "one", "two") as _, web.client() as client:
        run = await client.submit(
            "a trip",
            strategy="plan",
            plan=plan(step("one", "zooming"), step("two", "zooming", "one")),
            roles=["zooming"],
        )
        await run.result(timeout=30)
        async with web.logged_in(Kind.ADMIN, size=(width, height), device_scale_factor=1280 / width) as opened:
            for path in PATHS:
                page = await opened.go(path.format(run=run.run_id))
                await expect(page.get_by_role("heading", level=1)).to_be_visible()
                await expect(page.get_by_text("Loading ...")).to_have_count(0)
                assert await page.evaluate("document.documentElement.scrollWidth") <= width, path


@pytest.mark.search
async def test_nothing_moves_for_readers_who_want_less_motion(web: WebMesh) -> None:
    async with web.logged_in(Kind.ADMIN, reduced_motion="reduce") as opened:
        for path in ("/runs", "/fleet", "/inbox", "/chat"):
            page = await opened.go(path)
            await expect(page.get_by_role("heading", level=1)).to_be_visible()
            assert await page.evaluate("document.getAnimations().length") == 0
            styles = "(all) => all.filter((one) => parseFloat(getComputedStyle(one).transitionDuration) > 0).length"
            assert await page.eval_on_selector_all("*", styles) == 0


@pytest.mark.search
async def test_forced_colours_show_what_is_chosen_and_the_bars(web: WebMesh) -> None:
    async with stepping(web, "forced", "") as _, web.client() as client:
        run = await client.submit("forced", roles=["forced"])
        await run.result(timeout=30)
        async with web.logged_in(Kind.OPERATOR, forced_colors="active") as opened:
            page = await opened.go(f"/runs/{run.run_id}?tab=time")
            chosen = page.get_by_role("tab", name="Time")
            await expect(chosen).to_have_attribute("aria-selected", "true")
            outline = "(one) => getComputedStyle(one).outlineStyle"
            assert await chosen.evaluate(outline) == "solid"
            assert await page.get_by_role("tab", name="Tasks").evaluate(outline) == "none"
            ground = await page.evaluate("getComputedStyle(document.body).backgroundColor")
            bar = page.locator(".bar.good").first
            await expect(bar).to_be_visible()
            assert await bar.evaluate("(one) => getComputedStyle(one).backgroundColor") != ground
