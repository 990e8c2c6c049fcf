"""Of several checkpoints of an attempt that wait to be stored, only the newest is: the next attempt needs no other."""

from __future__ import annotations

from collections.abc import Sequence

from archon_mesh.engine import inputs as inp


def without_superseded(inputs: Sequence[inp.Input]) -> list[inp.Input]:
    """Returns the inputs with each checkpoint that a later one of its attempt replaces turned into the records that
    came with it."""
    newest = {
        (given.task_id, given.attempt): number
        for number, given in enumerate(inputs)
        if isinstance(given, inp.CheckpointIn)
    }
    return [
        inp.RecordsIn(given.task_id, given.attempt, given.records, given.sequence)
        if isinstance(given, inp.CheckpointIn) and number < newest[given.task_id, given.attempt]
        else given
        for number, given in enumerate(inputs)
    ]
