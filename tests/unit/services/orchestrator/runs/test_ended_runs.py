"""Runs that have just ended."""

from __future__ import annotations

from archon_mesh.engine import RunState
from archon_services.orchestrator.runs.states.ended_runs import MAX_ENDED, MAX_ENDED_BYTES, EndedRuns


def test_ended_runs_are_kept_up_to_a_number_and_bytes() -> None:
    ended = EndedRuns()
    for number in range(MAX_ENDED + 1):
        ended.add(RunState(), f"r{number}", 100)
    assert (ended.get("r0"), ended.get("r1") is None) == (None, False)
    ended.add(RunState(), "large", MAX_ENDED_BYTES - 100)
    assert [ended.get("r255") is None, ended.get("r256") is None, ended.get("large") is None] == [True, False, False]
    ended.add(RunState(), "large", 100)
    ended.add(RunState(), "r256", 100)
    ended.add(RunState(), "too large", MAX_ENDED_BYTES + 1)
    assert not any(ended.get(run_id) for run_id in ("large", "r256", "too large"))
