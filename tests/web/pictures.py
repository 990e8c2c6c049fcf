"""`python -m tests.web.pictures [FOLDER]` draws the views of the page in dark, light and on a phone, over a mesh of real processes with
the work of a day: WebP files for docs/images/web. With a second argument, PNG files go to that folder as well."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from playwright.async_api import Page, expect

from archon import Question, TaskContext
from archon.client import Client
from archon.errors import InvalidArgument
from archon.principal import Kind
from archon.types import QuestionTerms
from tests.web.agents import Handler, serving
from tests.web.asking_roles import talk
from tests.web.chromium import opened_browser
from tests.web.page_mesh import PHONE, WIDE, WebMesh, web_mesh
from tests.web.stepping import plan, step

FOLDER: Final = Path(__file__).parents[2] / "docs" / "images" / "web"
QUALITY: Final = 45
"""Of WebP, 1 to 100: texts stay sharp, and a picture has about 20 KB."""

SCHEMES: Final[Mapping[str, tuple[str, tuple[int, int]]]] = {
    "dark": ("dark", WIDE),
    "light": ("light", WIDE),
    "phone": ("light", (PHONE[0], 800)),
}
PLAN: Final = plan(
    step("flights", "researcher"),
    step("hotels", "researcher"),
    step("budget", "accountant", "flights", "hotels"),
    step("book-hotel", "booker", "budget"),
    step("itinerary", "editor", "budget"),
    step("checklist", "editor", "itinerary", "book-hotel"),
    goal="Plan four days in Lisbon for a family of four, at most 2,400 euros.",
)
ANSWERS: Final = {
    "flights": "Outbound **Thursday 09:40**, return Sunday 18:15: 612 euros for four, one bag each.",
    "hotels": "1. *Casa do Largo*, 210 euros a night, free cancellation\n2. *Pensão Alfama*, 165 euros a night",
    "budget": "| item | euros |\n|---|---:|\n| flights | 612 |\n| hotel, 4 nights | 840 |\n| food and trams | 520 |\n| **in all** | **1,972** |",
}


class Day:
    """The handlers of the roles, and what makes them go on."""

    def __init__(self) -> None:
        self.hold = asyncio.Event()

    async def work(self, task: TaskContext) -> str:
        """Answers a step of the plan; the itinerary is being written."""
        if task.step_id == "itinerary":
            task.write(
                "## Thursday\n\nArrive at noon, tram 28 to the hotel, dinner in Alfama.\n\n## Friday\n\nThe castle in the mor"
            )
            await self.hold.wait()
        return ANSWERS.get(task.step_id, f"{task.step_id}: done.")

    async def book(self, task: TaskContext) -> str | Question:
        """Asks whether it may book."""
        if task.inputs or task.answers:
            return "Booked."
        subject = {
            "tool": "book_room",
            "arguments": {"hotel": "Casa do Largo", "nights": 4, "guests": 4, "euros": 840, "refundable": True},
        }
        terms = QuestionTerms(timeout=3600.0, on_timeout="default", default_answer="reject")
        return Question(
            "Book **Casa do Largo** for four nights?", is_approval=True, subject_json=json.dumps(subject), terms=terms
        )

    async def choose(self, task: TaskContext) -> str | Question:
        """Asks for a choice."""
        schema = json.dumps({"enum": ["Friday, 14:00", "Monday, 9:00", "not this week"]})
        return "Noted." if task.inputs else Question("When may the new version be released?", schema)

    async def fail(self, task: TaskContext) -> str:
        """Fails."""
        raise InvalidArgument("row 4,812 of orders.csv: column `total` is 'n/a', a number was expected")

    async def wait(self, task: TaskContext) -> str:
        """Works for as long as the pictures are drawn."""
        await self.hold.wait()
        return "Done."


@asynccontextmanager
async def day(web: WebMesh) -> AsyncIterator[Mapping[str, str]]:
    """The work of a day during the block. Yields the ids of its runs by name."""
    today = Day()
    roles: Mapping[str, Handler] = {
        "researcher": today.work, "accountant": today.work, "editor": today.work, "booker": today.book, "release-manager": today.choose,
        "order-importer": today.fail, "translator": today.wait, "librarian": talk,
    }  # fmt: skip
    async with AsyncExitStack() as stack:
        for role, handler in roles.items():
            await stack.enter_async_context(serving(web, role, handler))
        client = await stack.enter_async_context(web.client())
        try:
            yield await submitted(client)
        finally:
            today.hold.set()


async def submitted(client: Client) -> Mapping[str, str]:
    """Submits the runs of the day and waits until each is where it stays."""
    for goal in (
        "Readers must be able to reserve a book.",
        "The clerk must see overdue books, and remind their readers.",
    ):
        earlier = await client.submit(goal, session_id="library")
        await earlier.result(timeout=120)
    ended = await client.submit("Readers must be able to extend a loan twice.", session_id="library")
    await ended.result(timeout=120)
    failed = await client.submit(
        "Import the orders of October.", roles=["order-importer"], metadata={"com.example.batch": "2026-10"}
    )
    await failed.result(timeout=60)
    stopped = await client.submit("Translate the manual into Portuguese, German and French.", roles=["translator"])
    chat = await client.submit(
        "Which roles are there?", roles=["librarian"], strategy="agent", session_id="chat-librarian-" + "5" * 32
    )
    await chat.result(timeout=60)
    asking = await client.submit("Release version 2.5.", roles=["release-manager"])
    trip = await client.submit(
        "Plan four days in Lisbon for a family of four, at most 2,400 euros.", strategy="plan", plan=PLAN
    )
    async for view in trip.views():
        if view.questions and any(task.text for task in view.tasks.values()):
            break
    await client.rate(ended.run_id, 5)
    await client.mark(failed.run_id, "the importer")
    await client.cancel((await client.submit("Translate it into Klingon.", roles=["translator"])).run_id)
    return {
        "ended": ended.run_id,
        "earlier": earlier.run_id,
        "failed": failed.run_id,
        "trip": trip.run_id,
        "asking": asking.run_id,
        "stopped": stopped.run_id,
    }


async def draw(web: WebMesh, runs: Mapping[str, str], scheme: str, folder: Path, png: Path | None) -> None:
    """Draws all views in a scheme."""
    colours, size = SCHEMES[scheme]
    async with web.logged_in(Kind.ADMIN, size=size, color_scheme=colours, name="ann") as opened:
        page = opened.page
        views = {
            "runs": "/runs",
            "run": f"/runs/{runs['trip']}",
            "run-task": f"/runs/{runs['ended']}?task=TASK",
            "run-time": f"/runs/{runs['ended']}?tab=time",
            "run-plan": f"/runs/{runs['trip']}?tab=plan",
            "run-events": f"/runs/{runs['failed']}?tab=events",
            "inbox": "/inbox",
            "chat": "/chat/librarian/chat-librarian-" + "5" * 32,
            "fleet": "/fleet",
            "tools": "/tools",
            "memory": "/memory?scope=library",
            "prompts": f"/reports/runs/{runs['ended']}/prompts/2",
            "sources": f"/reports/runs/{runs['ended']}/sources",
            "critical-path": f"/reports/runs/{runs['ended']}/time",
            "difference": f"/reports/runs/{runs['ended']}/difference?other={runs['earlier']}",
            "learning": "/learning",
            "audit": "/audit",
        }
        for name, path in views.items():
            await page.goto(web.url + path.replace("task=TASK", ""))
            await page.get_by_role("heading", level=1).wait_for()
            await settle(page, name)
            await shoot(page, folder / f"{name}-{scheme}.webp", png)


async def settle(page: Page, name: str) -> None:
    """Waits until a view has loaded, and opens what its picture shows."""
    await page.wait_for_load_state("load")
    await expect(page.get_by_text("Loading ...")).to_have_count(0)
    if name == "run-task":
        await page.get_by_role("table", name="Tasks").get_by_role("button", name="designer").click()
        await page.get_by_role("complementary", name="The task").get_by_text("model ").first.wait_for()
        if page.viewport_size is not None and page.viewport_size["width"] < WIDE[0]:
            await page.get_by_role("complementary", name="The task").scroll_into_view_if_needed()
            await page.evaluate("document.querySelector('aside').scrollIntoView()")
    elif name == "run-plan":
        await page.get_by_role("button", name="Edit the plan").click()
        await page.locator("g[role=button]").last.click()
        await page.get_by_label("Description").fill("A list for each traveller, with the weather of the week.")
        await page.locator("#tab-panel").evaluate("(panel) => panel.scrollIntoView()")
    elif name in ("run-time", "run-events"):
        await page.get_by_role("tablist").evaluate("(tabs) => tabs.scrollIntoView()")
    elif name == "inbox":
        await (
            page.get_by_role("navigation", name="Open questions").get_by_role("link").filter(has_text="booker").click()
        )
    elif name == "runs":
        await page.get_by_role("row").filter(has_text="Lisbon").wait_for()
    elif name == "prompts":
        await page.get_by_label(re.compile(r"^\d+\. user")).last.fill(
            "The clerk must see overdue books, the oldest first."
        )
        await page.get_by_role("button", name="Send").click()
        await page.get_by_role("table", name="Measures of the answers").wait_for()
    await page.mouse.move(0, 0)
    await page.wait_for_timeout(400)


async def shoot(page: Page, path: Path, png: Path | None) -> None:
    """Writes the part of a page in sight to a file."""
    session = await page.context.new_cdp_session(page)
    answer = await session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    await asyncio.to_thread(path.write_bytes, base64.b64decode(answer["data"]))
    if png is not None:
        await page.screenshot(path=png / f"{path.stem}.png")
    await session.detach()


async def drawn(folder: Path, png: Path | None) -> None:
    """Starts the mesh and its day, and draws all views in all schemes."""
    async with opened_browser() as browser, web_mesh(browser) as web, day(web) as runs:
        for scheme in SCHEMES:
            await draw(web, runs, scheme, folder, png)


def main(folder: Path = FOLDER, png: Path | None = None) -> None:
    """Draws into folders, which are made, and says how large the pictures are."""
    for each in (folder, png):
        if each is not None:
            each.mkdir(parents=True, exist_ok=True)
    asyncio.run(drawn(folder, png))
    files = sorted(folder.glob("*.webp"))
    print(f"{len(files)} pictures, {sum(file.stat().st_size for file in files):,} bytes, in {folder}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
