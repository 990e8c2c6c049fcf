"""A watcher of a run receives every durable event once and in order, however slow it is, and its queue is bounded."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import ResourceExhausted, RunExpired, Unavailable
from archon_mesh.core.people import NO_TERMS
from archon_mesh.engine import events as ev
from archon_mesh.engine.types import Failure, Payload, TaskState
from archon_services.orchestrator.journal import MemoryJournal, StoredStep
from archon_services.orchestrator.watch.hub import BATCH_BYTES, MAX_QUEUED, MAX_QUEUED_BYTES, WatchHub
from tests.fixtures.journal import commit, new_run, shown, step_of
from tests.fixtures.run_events import event_to_proto
from tests.fixtures.waiting import run_ready_tasks


class Journaled:
    """A run whose events are appended and published as a driver does it."""

    def __init__(self) -> None:
        self.journal = MemoryJournal()
        self.watchers = WatchHub(self.journal)
        self.seq = 0

    async def happen(self, count: int, *, last: bool = False, published: bool = True) -> None:
        events = [run_pb2.RunEvent(run_id="r", seq=self.seq + n, recorded={"count": n}) for n in range(1, count + 1)]  # type: ignore[arg-type]
        if last:
            events[-1].run_state.state = common_pb2.TASK_STATE_COMPLETED
        data = tuple(event.SerializeToString() for event in events)
        step = step_of("r", self.seq, data, ended=last, new=None if self.seq else new_run("r"))
        await commit(self.journal, step)
        self.seq += count
        if published:
            self.watchers.publish_step(step, [])

    def delta(self, text: str, known: int | None = None) -> None:
        event = run_pb2.RunEvent(run_id="r", text_delta={"text": text})  # type: ignore[arg-type]
        self.watchers.publish("r", [event], self.seq if known is None else known)

    async def seqs(self, after: int = 0, *, durable_only: bool = False) -> list[int]:
        async with aclosing(self.watchers.follow("r", after, durable_only=durable_only)) as batches:
            return [event.seq async for batch in batches for event in shown(batch)]

    async def kinds(self) -> list[str | None]:
        async with aclosing(self.watchers.follow("r", 0)) as batches:
            return [event.WhichOneof("event") async for batch in batches for event in shown(batch)]


async def test_stored_and_new_events_join_without_gap_or_repetition() -> None:
    run = Journaled()
    await run.happen(5)
    watching = asyncio.create_task(run.seqs())
    for _ in range(5):
        await asyncio.sleep(0)
        await run.happen(3)
    await run.happen(1, last=True)
    assert await watching == list(range(1, 22))
    assert await run.seqs(20) == [21]


async def test_an_unpublished_event_is_read_from_the_journal() -> None:
    run = Journaled()
    await run.happen(2)
    watching = asyncio.create_task(run.seqs())
    await run_ready_tasks()
    await run.happen(2, published=False)
    await run.happen(1, last=True)
    assert await watching == [1, 2, 3, 4, 5]


async def test_deltas_of_an_owner_behind_the_watcher_are_not_shown() -> None:
    run = Journaled()
    await run.happen(5)
    async with aclosing(run.watchers.follow("r", 5)) as batches:
        reading = asyncio.ensure_future(anext(batches))
        await run_ready_tasks()
        run.delta("from an owner deposed after the third event", known=3)
        run.delta("from the owner", known=5)
        assert [event.text_delta.text for event in shown(await reading)] == ["from the owner"]


async def test_deltas_are_shown_after_stored_events_that_precede_them(monkeypatch: pytest.MonkeyPatch) -> None:
    run, answers = Journaled(), asyncio.Event()
    await run.happen(3)
    stored = run.journal.steps

    async def slowly(*arguments: Any) -> list[StoredStep]:
        await answers.wait()
        return await stored(*arguments)

    monkeypatch.setattr(run.journal, "steps", slowly)
    async with aclosing(run.watchers.follow("r", 0)) as batches:
        first = asyncio.ensure_future(anext(batches))
        await run_ready_tasks()
        run.delta("sent before the fourth event", known=3)
        await run.happen(1)
        answers.set()
        assert [event.seq for event in shown(await first)] == [1, 2, 3, 4]
        (delta,) = shown(await anext(batches))
        assert delta.text_delta.text == "sent before the fourth event"


async def test_a_slow_watcher_loses_deltas_but_no_durable_event() -> None:
    run = Journaled()
    await run.happen(1)
    async with aclosing(run.watchers.follow("r", 0)) as batches:
        seqs = [event.seq for event in shown(await anext(batches))]
        for _ in range(MAX_QUEUED + 500):
            run.delta("x")
        await run.happen(MAX_QUEUED + 500)
        await run.happen(1, last=True)
        (watcher,) = run.watchers._tails["r"]
        assert len(watcher.queue) <= MAX_QUEUED
        async for batch in batches:
            seqs += [event.seq for event in shown(batch) if event.seq]
    assert seqs == list(range(1, run.seq + 1))


async def test_queue_and_batches_of_a_watcher_are_bounded_in_bytes() -> None:
    run = Journaled()
    await run.happen(1)
    text, took = "x" * 64_000, 0
    async with aclosing(run.watchers.follow("r", 0)) as batches:
        await anext(batches)
        run.delta("it has caught up")
        await anext(batches)
        for _ in range(MAX_QUEUED_BYTES // 64_000 + 100):
            run.delta(text)
        (watcher,) = run.watchers._tails["r"]
        assert MAX_QUEUED_BYTES - 100_000 < watcher.size <= MAX_QUEUED_BYTES
        await run.happen(1, last=True)
        seen: list[int] = []
        async for batch in batches:
            size = len(batch)
            assert size < BATCH_BYTES + 70_000
            took += size
            seen += [event.seq for event in shown(batch) if event.seq]
        assert watcher.size == 0
    assert seen == [2]
    assert took <= MAX_QUEUED_BYTES + 1_000


async def test_what_is_queued_for_all_watchers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Journaled()
    run.watchers._queued.limit = 3_000
    tails = [run.watchers.attach("r", 0, lambda tail: None) for _ in range(10)]
    for _ in range(20):
        await run.happen(3)
        assert run.watchers._queued.used <= 3_000
    assert any(tail.behind for tail in tails)
    for tail in tails:
        run.watchers.detach(tail)
    assert run.watchers._queued.used == 0


async def test_a_watcher_that_finds_no_room_in_the_queues_reads_the_journal() -> None:
    run = Journaled()
    await run.happen(1)
    run.watchers._queued.limit = 0
    watching = asyncio.create_task(run.seqs())
    for _ in range(5):
        await asyncio.sleep(0)
        await run.happen(3)
    await run.happen(1, last=True)
    assert await watching == list(range(1, 18))


async def test_watchers_that_do_not_take_what_they_read_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archon_services.orchestrator.watch.hub.BACKLOG_PATIENCE", 0.01)
    run = Journaled()
    await run.happen(3, last=True)
    run.watchers._backlog.limit = 2 * BATCH_BYTES
    page = sum(len(step.data) for step in await run.journal.steps("r"))
    stuck = [run.watchers.follow("r", 0) for _ in range(2)]
    for batches in stuck:
        await anext(batches)
    assert run.watchers._backlog.used == 2 * page, "a small page counts as what it is"
    run.watchers._backlog.limit = 2 * page
    with pytest.raises(ResourceExhausted) as refused:
        await run.seqs()
    assert refused.value.retry_delay
    for batches in stuck:
        await batches.aclose()
    assert run.watchers._backlog.used == 0
    run.watchers._backlog.limit = BATCH_BYTES
    assert await run.seqs() == [1, 2, 3]


async def test_a_watch_of_durable_events_has_no_deltas() -> None:
    run = Journaled()
    await run.happen(1)
    watching = asyncio.create_task(run.seqs(durable_only=True))
    await run_ready_tasks()
    run.delta("x")
    await run.happen(1, last=True)
    assert await watching == [1, 2]


async def test_a_stop_of_the_orchestrator_ends_its_watches() -> None:
    run = Journaled()
    await run.happen(1)
    watching = asyncio.create_task(run.seqs())
    await run_ready_tasks()
    assert run.watchers.watched("r")
    run.watchers.close()
    with pytest.raises(Unavailable):
        await watching
    assert not run.watchers.watched("r")


async def test_deltas_of_an_attempt_are_not_shown_after_its_end() -> None:
    run = Journaled()
    await run.happen(1)
    task = common_pb2.TaskRef(task_id="r.1", attempt=1)
    watching = asyncio.create_task(run.kinds())
    await asyncio.sleep(0)
    delta = run_pb2.RunEvent(run_id="r", task=task, text_delta={"text": "late"})  # type: ignore[arg-type]
    run.watchers.publish("r", [delta], 1)
    run.watchers.publish("r", [run_pb2.RunEvent(run_id="r", seq=2, task=task, result={}), delta])  # type: ignore[arg-type]
    run.watchers.publish("r", [run_pb2.RunEvent(run_id="r", seq=3, run_state={})])  # type: ignore[arg-type]
    assert await watching == ["recorded", "text_delta", "result", "run_state"]


TASK = common_pb2.TaskRef(task_id="r.1", attempt=1, run_id="r")
BUSY = Failure("UNAVAILABLE", "OVERLOADED", "the instance is full")
AN_END: tuple[ev.Event, ...] = (
    ev.ResultReceived("r.1", 1, "a", TaskState.COMPLETED, Payload()),
    ev.InputRequested("r.1", 1, "a", "i", Payload()),
    ev.ApprovalRequested("r.1", 1, "a", "i", NO_TERMS, Payload()),
    ev.Lost("r.1", 1, "i-1", BUSY),
    ev.Rejected("r.1", 1, "i-1", BUSY, 0.0),
    ev.Discarded("r.1", 1, "STALE_EPOCH"),
)
NO_END: tuple[ev.Event, ...] = (
    ev.InputRequested("r.1", 1, "a", "i", Payload(), sequence=7),
    ev.Recorded("r.1", 1, 2),
)


@pytest.mark.parametrize("path", ["published", "stored", "forwarded"])
@pytest.mark.parametrize("event", [*AN_END, *NO_END], ids=lambda event: f"{type(event).__name__}-{event in AN_END}")
async def test_deltas_are_shown_until_their_attempt_ends(event: ev.Event, path: str) -> None:
    run = Journaled()
    await run.happen(1)
    proto = event_to_proto(event, run_id="r", seq=2, time=Timestamp(), epoch=1)
    step = step_of("r", 1, (proto.SerializeToString(),))
    if path == "stored":
        await commit(run.journal, step)
    async with aclosing(run.watchers.follow("r", 0)) as batches:
        got = shown(await anext(batches))
        if path == "published":
            run.watchers.publish_step(step, [event])
        elif path == "forwarded":
            run.watchers.publish("r", [proto])
        run.watchers.publish("r", [run_pb2.RunEvent(run_id="r", task=TASK, text_delta={"text": "late"})], 2)  # type: ignore[arg-type]
        run.watchers.publish("r", [run_pb2.RunEvent(run_id="r", seq=3, run_state={})])  # type: ignore[arg-type]
        got += [event async for batch in batches for event in shown(batch)]
    deltas = [event.text_delta.text for event in got if event.WhichOneof("event") == "text_delta"]
    assert deltas == ([] if event in AN_END else ["late"])
    assert [event.seq for event in got if event.seq] == [1, 2, 3]


async def test_a_discarded_result_does_not_reopen_a_later_attempt() -> None:
    run = Journaled()
    await run.happen(1)
    watching = asyncio.create_task(run.kinds())
    await asyncio.sleep(0)
    first, second = (common_pb2.TaskRef(task_id="r.1", attempt=number) for number in (1, 2))
    delta = run_pb2.RunEvent(run_id="r", task=second, text_delta={"text": "late"})  # type: ignore[arg-type]
    run.watchers.publish("r", [run_pb2.RunEvent(run_id="r", seq=2, task=second, input_requested={})])  # type: ignore[arg-type]
    run.watchers.publish("r", [run_pb2.RunEvent(run_id="r", seq=3, task=first, discarded={}), delta])  # type: ignore[arg-type]
    run.watchers.publish("r", [run_pb2.RunEvent(run_id="r", seq=4, run_state={})])  # type: ignore[arg-type]
    assert await watching == ["recorded", "input_requested", "discarded", "run_state"]


async def test_a_watch_of_events_that_were_deleted_meanwhile_ends() -> None:
    journaled = Journaled()
    await journaled.happen(3, last=True)
    await journaled.journal.compact("r", b"")
    async with aclosing(journaled.watchers.follow("r", 0)) as batches:
        async with asyncio.timeout(60):
            with pytest.raises(RunExpired, match="were removed by retention"):
                await anext(batches)
