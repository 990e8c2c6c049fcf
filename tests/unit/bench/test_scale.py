"""The arithmetic of the benchmark of scale, and the copies of ended runs."""

from __future__ import annotations

import pytest

from archon_services.orchestrator.journal import NewRun, Step
from tests.bench.ended_runs import copy_of
from tests.bench.scale import Comparison, Figure, mean


def test_work_at_rest_is_taken_out_of_a_figure() -> None:
    assert Figure(cpu=3_000.0, elapsed=0.005, p50=0.0, p95=0.0).without_rest(300.0) == pytest.approx(1_500.0)


def test_slices_of_a_round_are_averaged() -> None:
    assert mean([Figure(1.0, 0.25, 0.1, 0.3), Figure(3.0, 0.75, 0.3, 0.5)]) == Figure(2.0, 0.5, 0.2, 0.4)


def figure(cpu: float) -> Figure:
    return Figure(cpu, 1.0, cpu / 1_000, cpu / 500)


def test_cells_show_medians_their_change_and_its_range() -> None:
    base = [figure(100.0), figure(200.0), figure(100.0)]
    loaded = [figure(110.0), figure(200.0), figure(120.0)]
    assert Comparison(base, loaded).cells() == ["100", "120", "1.20", "1.00 to 1.20", "1.20 / 1.20"]


def test_copy_of_a_run_has_its_id_in_every_step() -> None:
    new = NewRun("run-1", "default", "", b"", "", "owner")
    steps = [
        Step("run-1", 1, 0, 2, "run-1-0", 1.0, b"..run-1..", b"run-1.1", 2, new=new),
        Step("run-1", 1, 2, 3, "run-1-2", 2.0, b"run-1.1", b"", 3, ended=True),
    ]
    copies = copy_of(steps, "run-2")
    assert [(copy.run_id, copy.batch_id, copy.data, copy.inputs) for copy in copies] == [
        ("run-2", "run-2-0", b"..run-2..", b"run-2.1"),
        ("run-2", "run-2-2", b"run-2.1", b""),
    ]
    assert copies[0].new is not None
    assert (copies[0].new.run_id, copies[0].new.owner, bool(copies[0].new.request_id)) == ("run-2", "owner", True)
