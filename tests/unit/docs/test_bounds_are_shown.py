"""Each row of the table of bounds names tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NAMES = {
    name for path in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
}


def rows() -> list[str]:
    """Without the two lines of the head."""
    section = (ROOT / "docs" / "architecture.md").read_text().partition("\n## Bounds\n")[2].partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("|")][2:]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.split("|")[1].strip())
def test_each_bound_is_shown_by_tests_that_there_are(row: str) -> None:
    named = re.findall(r"`(test_\w+)`", row.split("|")[4])
    assert named
    assert set(named) <= NAMES


def test_the_table_is_read_as_it_is_meant() -> None:
    assert len(rows()) > 30
    assert all(row.count("|") == 5 for row in rows())
