"""docs/limits.md has the constants' values, and each limit names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.docs import limits
from tests.unit.docs.limit_rows.limit import Limit

ROOT = Path(__file__).parents[3]
NAMES = {
    name for path in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
}
ALL = [limit for area in limits.LIMITS.values() for limit in area]


def test_each_limit_is_shown_by_tests_that_exist() -> None:
    assert [limit.what for limit in ALL if not limit.tests] == []
    assert {limit.what: missing for limit in ALL if (missing := set(limit.tests) - NAMES)} == {}


def test_the_page_has_the_values_of_the_constants() -> None:
    assert limits.PAGE.read_text() == limits.page(), "run: python -m tests.unit.docs.limits"


def test_the_page_has_a_row_for_each_limit() -> None:
    rows = [line for line in limits.PAGE.read_text().splitlines() if line.startswith("| ")]
    assert len(ALL) > 50
    assert len(rows) == len(ALL) + len(limits.LIMITS)
    assert all(row.count(" | ") == 2 for row in rows)


@pytest.mark.parametrize(
    ("number", "unit", "text"),
    [
        (5_000, None, "5,000"),
        (1024 * 1024, "bytes", "1 MiB"),
        (512 * 1024, "bytes", "512 KiB"),
        (16 * 1024 * 1024 - 64 * 1024, "bytes", "15.9 MiB"),
        (16 * 1024 * 1024, "characters", "16 Mi characters"),
        (30.0, "seconds", "30 s"),
        (86_400.0, "seconds", "1 day"),
        (30 * 86_400.0, "seconds", "30 days"),
    ],
)
def test_numbers_are_shown_with_their_unit(number: float, unit: str | None, text: str) -> None:
    assert limits.shown(number, unit) == text


def test_a_constant_that_moved_is_noticed() -> None:
    with pytest.raises((ImportError, NameError)):
        limits.row(Limit("x", "{archon.channel:NOT_THERE}", "", []))
