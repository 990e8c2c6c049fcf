"""Of several checkpoints of an attempt, the newest is stored."""

from __future__ import annotations

from archon_mesh.engine import inputs as inp
from archon_services.orchestrator.runs.turn.superseded import without_superseded


def test_a_checkpoint_that_a_later_one_replaces_is_not_stored_and_its_records_are() -> None:
    inputs: list[inp.Input] = [
        inp.CheckpointIn("r.1", 1, 1, 2, b"old"),
        inp.CheckpointIn("r.2", 1, 1, 0, b"of another task"),
        inp.CheckpointIn("r.1", 1, 4, 1, b"new"),
        inp.Tick(),
    ]
    assert without_superseded(inputs) == [inp.RecordsIn("r.1", 1, 2, 1), *inputs[1:]]


def test_a_checkpoint_of_another_attempt_replaces_none() -> None:
    inputs: list[inp.Input] = [inp.CheckpointIn("r.1", 1, 1), inp.CheckpointIn("r.1", 2, 1)]
    assert without_superseded(inputs) == inputs
