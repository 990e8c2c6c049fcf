"""The waterfall as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from archon_services.reports.waterfall.document import waterfall_document
from tests.unit.services.reports.waterfall.journals import Journal, delegation, pipeline


def document(journal: Journal) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(json.dumps(waterfall_document(journal.waterfall())))
    return loaded


def test_times_are_seconds_after_the_start() -> None:
    data = document(delegation())
    assert (data["start_time"], data["seconds"], data["state"]) == ("2023-11-14T22:13:20Z", 10.0, "completed")
    (lead,) = data["spans"]
    assert [(span["kind"], span["start"], span["seconds"]) for span in lead["spans"]] == [
        ("model", 0.0, 2.0),
        ("delegation", 2.0, 6.0),
        ("model", 8.0, 1.0),
    ]


def test_critical_path_names_spans_and_covers_the_run() -> None:
    data = document(pipeline())
    by_number: dict[int, dict[str, Any]] = {}
    pending = list(data["spans"])
    while pending:
        span = pending.pop()
        by_number[span["span"]] = span
        pending += span["spans"]
    steps = data["critical_path"]
    assert sum(step["seconds"] for step in steps) == pytest.approx(data["seconds"])
    assert all(by_number[step["span"]]["on_critical_path"] for step in steps)
    assert data["time"]["model"] == {
        "critical_path_seconds": 7.5,
        "critical_path_share": 0.75,
        "sum_seconds": 10.0,
    }


def test_spans_above_the_path_are_on_it() -> None:
    (lead,) = document(delegation())["spans"]
    cook = lead["spans"][1]
    assert [span["on_critical_path"] for span in (lead, cook, *cook["spans"])] == [True] * 4
    queue, baker = (document(pipeline())["spans"][number] for number in (0, 2))
    assert (queue["name"], queue["on_critical_path"], baker["on_critical_path"]) == ("cook", False, True)
