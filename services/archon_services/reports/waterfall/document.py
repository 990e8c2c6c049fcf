"""The waterfall as JSON; docs/observability.md describes the fields."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from archon.run_view import Usage
from archon_services.reports.waterfall.spans import Span, Waterfall
from archon_services.reports.waterfall.totals import totals


def waterfall_document(waterfall: Waterfall) -> dict[str, Any]:
    """Returns the JSON value. Times of spans are in seconds after the start of the run, rounded to microseconds."""
    root = waterfall.root
    origin = root.start
    critical = waterfall.critical()
    return {
        "run_id": waterfall.run_id,
        "state": root.status,
        "failure": root.detail,
        "strategy": waterfall.strategy,
        "start_time": datetime.fromtimestamp(origin, UTC).isoformat().replace("+00:00", "Z"),
        "seconds": _rounded(root.seconds),
        **_spent(root.spent),
        "time": {
            total.kind.value: {
                "critical_path_seconds": _rounded(total.critical),
                "critical_path_share": round(total.share, 4),
                "sum_seconds": _rounded(total.summed),
            }
            for total in totals(waterfall)
        },
        "critical_path": [
            {
                "span": step.span.number,
                "kind": step.kind.value,
                "start": _rounded(step.start - origin),
                "seconds": _rounded(step.seconds),
            }
            for step in waterfall.path
        ],
        "critical_tasks": waterfall.critical_tasks(),
        "marks": [{"start": _rounded(mark.time - origin), "text": mark.text} for mark in waterfall.marks],
        "notes": waterfall.notes,
        "spans": [_span(child, origin, critical) for child in root.children],
    }


def _span(span: Span, origin: float, critical: set[int]) -> dict[str, Any]:
    return {
        "span": span.number,
        "kind": span.kind.value,
        "name": span.name,
        "start": _rounded(span.start - origin),
        "seconds": _rounded(span.seconds),
        "status": span.status,
        "detail": span.detail,
        "task_id": span.task_id,
        "attempt": span.attempt,
        "instance_id": span.instance,
        **_spent(span.spent),
        "on_critical_path": span.number in critical,
        "spans": [_span(child, origin, critical) for child in span.children],
    }


def _spent(spent: Usage) -> dict[str, Any]:
    return {
        "input_tokens": spent.input_tokens,
        "output_tokens": spent.output_tokens,
        "cost_micro_usd": spent.cost_micro_usd,
        "estimated": spent.estimated,
        "cached_input_tokens": spent.cached_input_tokens,
    }


def _rounded(seconds: float) -> float:
    return round(seconds, 6)
