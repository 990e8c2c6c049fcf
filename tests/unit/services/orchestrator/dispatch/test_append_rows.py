"""Call records are stored beside the event that counts them: each once, with any kind of frame."""

from __future__ import annotations

import pytest

from archon.api.agent.v1 import agent_pb2
from archon_mesh.core.run import RunState
from archon_mesh.core.run import events as ev
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.types import TaskState
from archon_services.orchestrator.dispatch.append_rows import record_rows
from archon_services.orchestrator.ports import Delivery

CALLS = (agent_pb2.CallRecord(target="a"), agent_pb2.CallRecord(target="b"))


@pytest.mark.parametrize(
    "given",
    [
        inp.ResultIn("r.1", 1, TaskState.COMPLETED, None, records=2),
        inp.DelegateIn("r.1", 1, "d1", 3, "cook", True, "", records=2),
        inp.CheckpointIn("r.1", 1, 3, records=2),
    ],
)
def test_call_records_are_stored_with_any_frame(given: inp.Input) -> None:
    rows = record_rows("r", [Delivery(given, records=CALLS)], RunState(), [ev.Recorded("r.1", 1, 2)])
    assert len(rows) == 2


def test_call_records_repeated_after_a_takeover_count_once() -> None:
    again = [Delivery(inp.ResultIn("r.1", 1, TaskState.COMPLETED, None, records=2), records=CALLS)] * 2
    assert len(record_rows("r", again, RunState(), [ev.Recorded("r.1", 1, 2)])) == 2
    assert not record_rows("r", again, RunState(), [ev.Paused("")])
