"""What a replica exports: the runs that it ends, from the journal if it has not stored all of their events itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from archon.api.orchestrator.v1 import run_pb2
from archon.wire import timestamp
from archon_mesh.engine import events as ev
from archon_services.orchestrator.journal import NewRun, Step
from archon_services.orchestrator.journal.memory.journal import MemoryJournal
from archon_services.orchestrator.observability.exporter import UNCONFIRMED, FollowedRun, RunSpanExporter
from tests.fixtures.run_events import event_to_proto
from tests.fixtures.waiting import eventually
from tests.unit.services.orchestrator.observability.test_run_spans import RUN, completed, dispatched, ended, submitted

EVENTS: list[ev.Event] = [submitted(), dispatched(), completed(), ended()]


class Queue:
    """Takes entries; `names` are those of their spans."""

    def __init__(self) -> None:
        self.entries: list[FollowedRun] = []
        self.full = False

    def has_room(self) -> bool:
        return not self.full

    def put(self, entry: FollowedRun) -> None:
        self.entries.append(entry)

    @property
    def names(self) -> list[list[str]]:
        return [[span.name for span in entry.spans()] for entry in self.entries]


WHOLE = ["invoke_agent a", "invoke_workflow pipeline"]


def step(base: int, count: int, *, run_id: str = RUN, final: bool = False) -> Step:
    return Step(run_id, 1, base, base + count, f"b{base}", float(base), b"", b"", 2, ended=final)


class Replica:
    """An exporter over a journal in memory whose stored events are `events`."""

    def __init__(self) -> None:
        self.queue = Queue()
        self.journal = MemoryJournal()
        self.loaded: list[str] = []
        self.events = [
            event_to_proto(event, run_id=RUN, seq=seq, time=timestamp(seq), epoch=1)
            for seq, event in enumerate(EVENTS, 1)
        ]
        export: Any = SimpleNamespace(queue=self.queue)
        self.exporter = RunSpanExporter(self.journal, self._load, export)

    async def _load(self, run_id: str) -> list[run_pb2.RunEvent]:
        self.loaded.append(run_id)
        return self.events

    async def until_exported(self, count: int = 1) -> None:
        async def exported() -> bool:
            return len(self.queue.entries) >= count

        await eventually(exported, 60)


@pytest.fixture
async def replica() -> AsyncIterator[Replica]:
    replica = Replica()
    replica.exporter.start()
    yield replica
    await replica.exporter.close()


async def test_a_run_that_it_followed_is_exported_at_its_end(replica: Replica) -> None:
    replica.exporter.stored(step(0, 2), EVENTS[:2])
    assert replica.queue.entries == []
    replica.exporter.stored(step(2, 2, final=True), EVENTS[2:])
    assert replica.queue.names == [WHOLE]
    assert replica.loaded == []


async def test_a_run_that_it_took_over_is_read_from_the_journal(replica: Replica) -> None:
    replica.exporter.stored(step(2, 2, final=True), EVENTS[2:])
    await replica.until_exported()
    assert (replica.queue.names, replica.loaded) == ([WHOLE], [RUN])


async def test_a_step_that_was_not_confirmed_is_read_again(replica: Replica) -> None:
    replica.exporter.stored(step(0, 1), EVENTS[:1])
    replica.exporter.stored(step(2, 2, final=True), EVENTS[2:])  # the step between them timed out, and was stored
    await replica.until_exported()
    assert (replica.queue.names, replica.loaded) == ([WHOLE], [RUN])


async def test_a_run_that_is_not_traced_costs_nothing(replica: Replica) -> None:
    replica.exporter.stored(step(0, 1), [submitted(traced=False)])
    replica.exporter.stored(step(1, 3, final=True), EVENTS[1:])
    assert (replica.queue.entries, replica.loaded) == ([], [])


async def test_while_the_exporter_is_stuck_no_run_is_followed(replica: Replica) -> None:
    replica.queue.full = True
    replica.exporter.stored(step(0, 4, run_id="lost", final=True), EVENTS)
    replica.exporter.stored(step(0, 2), EVENTS[:2])
    replica.queue.full = False
    replica.exporter.stored(step(2, 2, final=True), EVENTS[2:])
    await replica.until_exported()
    assert (replica.queue.names, replica.loaded) == ([WHOLE], [RUN])


async def test_a_run_that_it_leaves_is_forgotten(replica: Replica) -> None:
    replica.exporter.stored(step(0, 2), EVENTS[:2])
    replica.exporter.left(RUN)
    replica.exporter.stored(step(2, 2, final=True), EVENTS[2:])
    await replica.until_exported()
    assert replica.loaded == [RUN]


async def test_the_last_runs_of_a_dead_replica_are_exported(replica: Replica) -> None:
    await replica.journal.open()
    for run_id, owner, time in (
        ("last", "dead", 100.0),
        ("before", "dead", 100.0 - UNCONFIRMED),
        ("old", "dead", 100.0 - UNCONFIRMED - 1),
        ("other", "alive", 100.0),
    ):
        new = NewRun(run_id, "default", "", b"", "", owner)
        result = replica.journal.commit([replace(step(0, 4, run_id=run_id, final=True), new=new, time=time)])
        assert isinstance(result, list)
    replica.exporter.died("dead")
    await replica.until_exported(2)
    assert sorted(replica.loaded) == ["before", "last"]


async def test_a_damaged_run_is_left_out(replica: Replica, caplog: pytest.LogCaptureFixture) -> None:
    replica.events = [run_pb2.RunEvent(run_id=RUN, seq=1)]  # an event of no known kind
    replica.exporter.ended("damaged")
    replica.exporter.stored(step(0, 2, run_id="x"), EVENTS[:2])
    replica.exporter.stored(step(2, 2, run_id="x", final=True), EVENTS[2:])
    await replica.until_exported()

    async def logged() -> bool:
        return "the spans of run damaged are not exported" in caplog.text

    await eventually(logged, 60)
    assert "run x " not in caplog.text
