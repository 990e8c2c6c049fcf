"""A run as callers see it: why a task waits."""

from __future__ import annotations

import pytest

from archon_mesh.engine import RunState, apply
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.engine import decide
from archon_mesh.engine.types import Submission
from archon_services.orchestrator.convert.run_view import run_to_proto


@pytest.mark.parametrize(
    ("registered", "connected", "reason"),
    [
        (0, 0, "none is registered"),
        (1, 0, "the only one is not reachable"),
        (3, 0, "3 registered, none reachable"),
        (1, 1, "the only one is busy"),
        (3, 2, "all 2 are busy"),
    ],
)
def test_a_task_that_waits_for_an_instance_says_why(registered: int, connected: int, reason: str) -> None:
    run = RunState()
    submission = Submission("r", "default", "", "", "pipeline", ("a",), (), 60.0, None)
    for event in decide(run, inp.Submit(submission, "o", 1), 1.0):
        apply(run, event, 1.0)
    assert run_to_proto(run).create_time.seconds == 1
    [task] = run_to_proto(run, lambda _: (registered, connected)).tasks
    assert task.waiting_for == f"an instance of a with room ({reason})"
    [task] = run_to_proto(run).tasks
    assert task.waiting_for == "an instance of a with room"
