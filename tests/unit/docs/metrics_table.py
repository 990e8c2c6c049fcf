"""Writes the table of docs/observability.md from `archon.telemetry.metrics`: `python -m tests.unit.docs.metrics_table`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from archon.telemetry.metrics import METRICS, Metric
from tests.unit.docs.tables import code, table

PAGE: Final = Path(__file__).parents[3] / "docs" / "observability.md"
COLUMNS: Final = ("metric", "type", "labels", "meaning")


def metrics_table() -> str:
    """Renders the table."""
    return table(COLUMNS, map(_row, METRICS))


def _row(metric: Metric) -> tuple[str, ...]:
    unit = "" if metric.unit.startswith("{") else f", {code(metric.unit)}"  # braces: a count, of what the meaning says
    return (
        code(metric.name),
        f"{metric.kind.value}{unit}",
        ", ".join(map(code, metric.labels)),
        metric.description,
    )


def replaced(page: str) -> str:
    """Returns the page with the table in place of its own. Raises ValueError if it has none."""
    head = "| " + " | ".join(COLUMNS) + " |\n"
    start = page.index(head)
    end = page.find("\n\n", start)
    return page[:start] + metrics_table() + (page[end + 1 :] if end >= 0 else "")


if __name__ == "__main__":
    PAGE.write_text(replaced(PAGE.read_text()))
