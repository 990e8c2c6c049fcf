"""docs/failures.md lists the kinds of the catalogue, with their severity and advice."""

from __future__ import annotations

from pathlib import Path

from archon.failure_kinds import CATALOGUE

PAGE = Path(__file__).parents[3] / "docs" / "failures.md"


def test_the_page_lists_the_catalogue() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text().splitlines()
        if line.startswith("| `")
    ]
    listed = [(row[0].strip("`"), row[1], row[2]) for row in rows]
    assert listed == [(kind.name, kind.severity.name.lower(), kind.retry.name.lower()) for kind in CATALOGUE.values()]
