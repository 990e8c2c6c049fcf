"""The memory of `archon export` does not grow with the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from archon.history import open_run_file
from archon_services.orchestrator.convert import events_of
from tests.bench.export import measured_export

pytestmark = pytest.mark.slow

TASKS = 1_000
MEGABYTES = 100.0


async def test_the_export_of_a_long_run_stays_within_100_mb(tmp_path: Path) -> None:
    path, used = await measured_export(tmp_path, TASKS, 1)
    assert used.megabytes < MEGABYTES
    file = open_run_file(path)
    results = sum(event.HasField("result") for step in file.history().steps for event in events_of(step.data, ""))
    assert results == TASKS and sum(1 for _ in file.records()) == TASKS - 1
