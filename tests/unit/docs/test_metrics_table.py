"""docs/observability.md has every metric with its type, labels and meaning."""

from __future__ import annotations

import pytest

from archon.telemetry.metrics import METRICS
from tests.unit.docs.metrics_table import COLUMNS, PAGE, metrics_table, replaced


def test_the_page_has_the_metrics_of_the_code() -> None:
    assert metrics_table() in PAGE.read_text(), "run: python -m tests.unit.docs.metrics_table"
    assert PAGE.read_text().count(f"| {COLUMNS[0]} | {COLUMNS[1]} |") == 1
    assert len(metrics_table().splitlines()) == len(METRICS) + 2


def test_only_the_table_of_a_page_is_replaced() -> None:
    head = "| " + " | ".join(COLUMNS) + " |\n"
    page = f"before\n\n{head}| --- |\n| old |\n\nafter\n"
    assert replaced(page) == f"before\n\n{metrics_table()}\nafter\n"
    with pytest.raises(ValueError):
        replaced("no table")
