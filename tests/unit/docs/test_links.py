"""Relative links in the documentation lead to a file, and to a heading of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/*.md")])
CODE = re.compile(r"^```.*?^```", re.M | re.S)
LINK = re.compile(r"\]\((?!https?:)([^()\s]*)\)")


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as GitHub derives them."""
    headings = re.findall(r"^#+ (.+)$", CODE.sub("", page.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(CODE.sub("", page.read_text())):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), f"no file: {link}"
        assert not anchor or anchor in anchors(target), f"no heading: {link}"
