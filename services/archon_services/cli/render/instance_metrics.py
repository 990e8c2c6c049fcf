"""The table of the records of roles and instances."""

from __future__ import annotations

from typing import Final

from archon.api.orchestrator.v1 import run_pb2
from archon.plain_text import duration
from archon_services.reports.texts import cost_text, number, percent

HEADERS: Final = ("role", "instance", "tasks", "success", "mean", "p95", "cost", "stars", "bids kept", "won")
NARROW: Final = 8
"""Columns of a terminal that is not wide."""


def metrics_row(metrics: run_pb2.InstanceMetrics) -> tuple[str, ...]:
    """Returns the cells of a record; `-` stands for an unknown value."""
    done = metrics.tasks * metrics.success_rate
    return (
        metrics.role,
        metrics.instance_id.removeprefix(f"{metrics.role}-") or "all",
        number(metrics.tasks),
        percent(metrics.success_rate) if metrics.tasks else "-",
        duration(metrics.mean_seconds) if done else "-",
        duration(metrics.p95_seconds) if metrics.p95_seconds else "-",
        cost_text(round(metrics.mean_cost_micro_usd)) or "-",
        f"{metrics.mean_stars:.1f}" if metrics.mean_stars else "-",
        percent(metrics.bids_kept_rate) if metrics.bids else "-",
        percent(metrics.conflicts_won_rate) if metrics.conflicts else "-",
    )
