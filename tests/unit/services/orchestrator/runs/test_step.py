"""A step stores recorded calls beside the event that counts them: each call once, whatever frame carried it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from archon.api.agent.v1 import agent_pb2
from archon_mesh.engine import RunState
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.types import TaskState
from archon_services.orchestrator.convert import events_of
from archon_services.orchestrator.journal import RecordRow, Step
from archon_services.orchestrator.ports import Delivery
from archon_services.orchestrator.runs.turn.chain import RunChain
from archon_services.orchestrator.runs.turn.step import build_step

CALLS = (agent_pb2.CallRecord(target="a"), agent_pb2.CallRecord(target="b"))


def step_of(batch: Sequence[Delivery], events: Sequence[ev.Event], state_before: int = 0) -> Step:
    return build_step(
        RunState(),
        run_id="r",
        epoch=3,
        base=4,
        batch_id="b",
        now=100.0,
        stored_at=100.0,
        events=events,
        inputs=[delivery.given for delivery in batch],
        batch=batch,
        new=None,
        state_before=state_before,
        publishes=False,
        chain=RunChain("r"),
    )


def records(batch: Sequence[Delivery], events: Sequence[ev.Event]) -> tuple[RecordRow, ...]:
    return step_of(batch, events).records


@pytest.mark.parametrize(
    "carrier",
    [
        inp.ResultIn("r.1", 1, TaskState.COMPLETED, None, records=2),
        inp.DelegateIn("r.1", 1, "d1", 3, "cook", True, "", records=2),
        inp.CheckpointIn("r.1", 1, 3, records=2),
    ],
)
def test_calls_are_stored_with_every_kind_of_input(carrier: inp.Input) -> None:
    rows = records([Delivery(carrier, records=CALLS)], [ev.Recorded("r.1", 1, 2)])
    assert len(rows) == 2


def test_calls_repeated_after_a_takeover_count_once() -> None:
    again = [Delivery(inp.ResultIn("r.1", 1, TaskState.COMPLETED, None, records=2), records=CALLS)] * 2
    assert len(records(again, [ev.Recorded("r.1", 1, 2)])) == 2
    assert not records(again, [ev.Paused("")])


def test_a_step_holds_its_events_in_order_after_its_base() -> None:
    delivery = Delivery(inp.Pause("caller"), posted=7)
    step = step_of([delivery], [ev.Paused("caller"), ev.Recorded("r.1", 1, 2)])
    assert (step.base, step.last_seq, step.commands, step.epoch) == (4, 6, (7,), 3)
    stored = events_of(step.data, "r")
    assert [(event.run_id, event.seq) for event in stored] == [("r", 5), ("r", 6)]
    assert [event.WhichOneof("event") for event in stored] == ["paused", "recorded"]


def test_a_step_that_keeps_the_state_writes_no_row_of_its_run() -> None:
    state = int(RunState().state)
    assert not step_of([], [ev.Paused("")], state).state_changed
    assert step_of([], [ev.Paused("")], state + 1).state_changed
