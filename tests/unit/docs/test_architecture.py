"""The overview of the architecture is short, and the files that it names exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
ORCHESTRATOR = ROOT / "services" / "archon_services" / "orchestrator"
PAGE = ROOT / "docs" / "architecture.md"
PENDING: set[str] = set()
"""Named by the page, and not yet part of the code."""


def named_files() -> set[str]:
    section = PAGE.read_text().partition("\n## Where to find what\n")[2].partition("\n## ")[0]
    return set(re.findall(r"`([\w/.]+\.py)`", section))


def test_each_file_of_the_table_exists() -> None:
    missing = {name for name in named_files() if not ((ORCHESTRATOR / name).is_file() or (ROOT / name).is_file())}
    assert len(named_files()) > 20
    assert missing <= PENDING


def test_the_overview_has_at_most_200_lines() -> None:
    assert len(PAGE.read_text().splitlines()) <= 200
