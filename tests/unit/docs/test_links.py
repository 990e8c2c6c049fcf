"""Relative links in the documentation lead to a file, and to a heading of it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/*.md")])
CODE = re.compile(r"^```.*?^```", re.M | re.S)
LINK = re.compile(r"\]\((?!https?:)([^()\s]*)\)")


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as GitHub derives them."""
    headings = re.findall(r"^#+ (.+)$", CODE.sub("", page.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_relative_links_lead_somewhere() -> None:
    dead: list[str] = []
    for page in PAGES:
        for link in LINK.findall(CODE.sub("", page.read_text())):
            name, _, anchor = link.partition("#")
            target = page.parent / name if name else page
            if not target.exists():
                dead.append(f"{page.relative_to(ROOT)}: no file: {link}")
            elif anchor and anchor not in anchors(target):
                dead.append(f"{page.relative_to(ROOT)}: no heading: {link}")
    assert dead == []
