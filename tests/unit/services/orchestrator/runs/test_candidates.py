"""The tasks of a run that may have become ready."""

from __future__ import annotations

from archon_services.orchestrator.runs.turn.candidates import Candidates
from tests.unit.services.orchestrator.runs.test_session_history import run_of


def test_tasks_whose_step_was_not_stored_are_left_out() -> None:
    run, candidates = run_of(), Candidates()
    assert [task.task_id for task in candidates.take(run, ())] == ["r.1"], "at first all tasks are candidates"
    candidates.keep("r.2")
    assert [task.task_id for task in candidates.take(run, ("r.1", "r.3"))] == ["r.1"]
