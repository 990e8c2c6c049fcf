"""Writes the table of docs/observability.md from `archon.telemetry.metrics`: `python -m tests.unit.docs.metrics_table`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from archon.telemetry.metrics import METRICS, Metric
from tests.fixtures.prometheus import family_name, sanitized
from tests.unit.docs.tables import code, table

PAGE: Final = Path(__file__).parents[3] / "docs" / "observability.md"
COLUMNS: Final = ("metric", "in Prometheus", "type", "unit", "labels", "meaning")


def metrics_table() -> str:
    """Renders the table."""
    return table(COLUMNS, map(_row, METRICS))


def _row(metric: Metric) -> tuple[str, ...]:
    suffix = "_total" if metric.kind.value == "counter" else ""
    labels = ", ".join(code(sanitized(label)) for label in metric.labels)
    return (
        code(metric.name),
        code(family_name(metric) + suffix),
        metric.kind.value,
        code(metric.unit),
        labels,
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
