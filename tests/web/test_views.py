"""All views of an admin: without a violation that axe finds, within the width of the page, and by keyboard."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from playwright.async_api import expect

from archon.principal import Kind
from archon_services.gateway.web import build
from tests.web.page_mesh import PHONE, WIDE, WebMesh

pytestmark = pytest.mark.slow

AXE: Final = Path(build.FOLDER) / "node_modules" / "axe-core" / "axe.min.js"
VIEWS: Final = (
    "/runs",
    "/inbox",
    "/chat",
    "/fleet?role=designer",
    "/tools",
    "/memory",
    "/memory?part=long-term",
    "/memory?part=contradictions",
    "/prompts",
    "/learning",
    "/audit",
)
CHECK: Final = """async () => (await axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"], resultTypes: ["violations"] }))
  .violations.map((each) => `${each.id}: ${each.nodes.map((node) => node.html.slice(0, 200)).join(" | ")}`)"""


@pytest.mark.parametrize(
    ("scheme", "size"),
    [
        pytest.param("dark", WIDE, id="dark", marks=pytest.mark.search),
        pytest.param("light", WIDE, id="light", marks=pytest.mark.search),
        pytest.param("light", PHONE, id="phone"),
    ],
)
async def test_no_view_has_a_violation(web: WebMesh, scheme: str, size: tuple[int, int]) -> None:
    async with web.logged_in(Kind.ADMIN, size=size, color_scheme=scheme, bypass_csp=True) as opened:
        for view in VIEWS:
            page = await opened.go(view)
            await expect(page.get_by_role("heading", level=1)).to_be_visible()
            await expect(page.get_by_text("Loading ...")).to_have_count(0)
            await page.add_script_tag(path=AXE)
            assert await page.evaluate(CHECK) == [], view
            assert await page.evaluate("document.documentElement.scrollWidth") <= size[0], view


async def test_each_view_is_reached_by_keyboard(web: WebMesh) -> None:
    async with web.logged_in(Kind.ADMIN) as opened:
        page = await opened.go("/runs")
        await expect(page.get_by_role("navigation", name="Views")).to_be_visible()
        for name in ("Inbox", "Chat", "Fleet", "Tools", "Memory", "Prompts", "Learning", "Audit"):
            link = page.get_by_role("navigation", name="Views").get_by_role("link", name=name)
            await link.focus()
            await page.keyboard.press("Enter")
            await expect(link).to_have_attribute("aria-current", "page")


async def test_the_audit_log_is_for_auditors(web: WebMesh) -> None:
    async with web.logged_in(Kind.AUDITOR) as opened:
        page = await opened.go("/audit")
        await expect(page.get_by_text("none was changed, and none is missing")).to_be_visible()
    async with web.logged_in(Kind.VIEWER) as opened:
        page = await opened.go("/audit")
        await expect(page.get_by_role("heading", name="Not allowed")).to_be_visible()
        await expect(page.get_by_role("link", name="Audit")).to_have_count(0)
        assert await page.evaluate("fetch('/audit-chains').then((answer) => answer.status)") == 403


async def test_the_fleet_pins_edges_for_admins(web: WebMesh) -> None:
    async with web.logged_in(Kind.ADMIN) as opened:
        page = await opened.go("/fleet")
        await page.get_by_label("From").fill("planner")
        await page.get_by_label("To", exact=True).fill("coordinator")
        await page.get_by_role("button", name="Pin edge").click()
        await page.get_by_role("button", name="Unpin planner to coordinator").click()
        await expect(page.get_by_role("button", name="Unpin planner to coordinator")).to_have_count(0)
    async with web.logged_in(Kind.OPERATOR) as opened:
        page = await opened.go("/fleet")
        await expect(page.get_by_role("cell", name="designer").first).to_be_visible()
        await expect(page.get_by_role("button", name="Pin edge")).to_have_count(0)
