"""docs/testing-agents.md has every fault with its effect."""

from __future__ import annotations

import pytest

from archon_mesh.testing import Fault
from tests.unit.docs.faults_tables import FIRST, PAGE, faults_table, replaced


def test_the_page_has_the_faults_of_the_code() -> None:
    page = PAGE.read_text()
    for kind in FIRST:
        assert faults_table(kind) in page, "run: python -m tests.unit.docs.faults_tables"
        assert len(faults_table(kind).splitlines()) == len(kind) + 2
    assert replaced(page) == page


def test_faults_that_need_links_or_an_agent_say_so() -> None:
    lines = faults_table(Fault).splitlines()
    assert any(line.startswith("| `partition` (links, agent) | ") for line in lines)
    assert any(line.startswith("| `memory_killed` | ") for line in lines)


def test_a_page_without_tables_is_refused() -> None:
    with pytest.raises(ValueError):
        replaced("no table")
