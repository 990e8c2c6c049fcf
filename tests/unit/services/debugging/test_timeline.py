"""Stepping through long runs: each state is that of a fold, and a step folds few events."""

from __future__ import annotations

from typing import Any

import pytest

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.run_view import RunView
from archon.types import RunEvent
from archon_services.debugging import SNAPSHOT_EVERY, Timeline

LENGTH = 20_000


def long_run(length: int) -> list[RunEvent]:
    """The events of a run with a task for each five events."""
    events = [run_pb2.RunEvent(run_id="r", seq=1, submitted=run_pb2.Submitted(strategy=run_pb2.STRATEGY_PIPELINE))]

    def add(task_id: str, attempt: int) -> run_pb2.RunEvent:
        event = run_pb2.RunEvent(run_id="r", seq=len(events) + 1)
        event.time.FromNanoseconds(event.seq * 10**6)
        event.task.task_id, event.task.attempt = task_id, attempt
        events.append(event)
        return event

    while len(events) < length:
        task_id = f"r.{len(events)}"
        add(task_id, 0).task_state.state = common_pb2.TASK_STATE_SUBMITTED
        add(task_id, 1).dispatched.role = "worker"
        add(task_id, 1).recorded.count = 2
        add(task_id, 1).result.state = common_pb2.TASK_STATE_COMPLETED
        add(task_id, 1).published.role = "worker"
    return [RunEvent(event) for event in events[:length]]


class Counted(list[RunEvent]):
    """Events that count how many of them are read."""

    read = 0

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        self.read += len(found) if isinstance(found, list) else 1
        return found


@pytest.fixture(scope="module")
def events() -> Counted:
    return Counted(long_run(LENGTH))


def test_a_step_in_a_run_of_20000_events_folds_few_of_them(events: Counted) -> None:
    timeline = Timeline(events)
    timeline.at(LENGTH)
    assert timeline.snapshots == LENGTH // SNAPSHOT_EVERY
    for seq in (LENGTH - 1, LENGTH // 2, LENGTH // 2 - 1, 1, LENGTH):
        before = events.read
        assert timeline.at(seq).last_seq == seq
        assert events.read - before < SNAPSHOT_EVERY
    before = events.read
    timeline.at(LENGTH - 5)
    timeline.at(LENGTH - 4)
    assert events.read - before <= SNAPSHOT_EVERY + 1, "a step forwards folds one event"


def test_each_state_is_the_one_of_a_fold_from_the_beginning() -> None:
    events = long_run(60)
    timeline = Timeline(events, every=7)
    for seq in (60, 3, 59, 14, 13, 7, 1, 0, 60):
        view = RunView()
        for event in events[:seq]:
            view.apply(event)
        assert timeline.at(seq) == view


def test_there_is_no_state_outside_of_the_run() -> None:
    timeline = Timeline(long_run(5))
    for seq in (-1, 6):
        with pytest.raises(IndexError):
            timeline.at(seq)
