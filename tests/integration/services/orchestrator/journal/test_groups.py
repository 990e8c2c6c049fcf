"""Groups of steps, tested on each store: each step has its own result, and a failing step does not stop the others."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from archon.errors import ArchonError, InvalidArgument, RequestIdReused, Unavailable
from archon_services.orchestrator.journal import Journal, Outcome, RecordRow, SameRequest, Step, Turn
from archon_services.orchestrator.journal.framing import frame
from archon_services.orchestrator.journal.postgres import PostgresJournal
from archon_services.orchestrator.journal.sqlite import SqliteJournal
from archon_services.orchestrator.journal.sqlite import commit as sqlite_commit
from tests.fixtures.journal import commit_group, create, creation, event, new_run, step, store, stored_events
from tests.fixtures.waiting import until

changes = pytest.mark.parametrize("changed", [False, True], ids=["", "of state"])


@changes
async def test_durability_2_of_two_steps_with_one_base_one_is_done(journal: Journal, changed: bool) -> None:
    for number in range(10):
        run_id = f"r{number}"
        await create(journal, run_id)
        steps = [step(run_id, 1, batch=batch, changed=changed) for batch in "ab"]
        outcomes = await asyncio.gather(*(store(journal, each) for each in steps))
        assert set(outcomes) == {Outcome.DONE, Outcome.STALE}
        assert await stored_events(journal, run_id) == [event(run_id, 1), event(run_id, 2)]
        for each, outcome in zip(steps, outcomes, strict=True):
            assert await store(journal, each) is outcome, "a repeated step has the same result"


@changes
async def test_durability_3_each_step_of_a_group_has_its_result(journal: Journal, changed: bool) -> None:
    for run_id in ("good", "stale", "deposed", "again", "turn"):
        await create(journal, run_id)
    assert await journal.claim("deposed", "other") is not None
    again = step("again", 1, batch="again", changed=changed)
    assert await store(journal, again) is Outcome.DONE
    turn = Turn("default", "s", "clerk", 1, b"turn")
    results = await commit_group(
        journal,
        step("stale", 4, changed=changed),
        step("good", 1, changed=changed, records=(RecordRow("a", b"x"),)),
        step("deposed", 1, changed=changed),
        again,
        step("unknown", 1, changed=changed),
        step("turn", 1, changed=changed, turns=(turn,)),
        creation(new_run("new", "q")),
    )
    done, stale, deposed = Outcome.DONE, Outcome.STALE, Outcome.DEPOSED
    assert list(results) == [stale, done, deposed, done, deposed, done, done]
    lengths = {
        run_id: len(await stored_events(journal, run_id))
        for run_id in ("good", "stale", "deposed", "again", "turn", "new")
    }
    assert lengths == {"good": 2, "stale": 1, "deposed": 1, "again": 2, "turn": 2, "new": 1}
    assert (await journal.conversation("default", "s", "clerk")).version == 1
    assert await journal.records("good") == [(1, b"x")]


async def test_refused_creations_fail_alone_in_a_group(journal: Journal) -> None:
    await create(journal, "first", "q")
    results = await commit_group(
        journal,
        creation(new_run("a", "q")),
        creation(new_run("b", "q", b"another payload")),
        creation(new_run("c", "other")),
    )
    assert results[0] == SameRequest("first")
    assert isinstance(results[1], RequestIdReused)
    assert results[2] is Outcome.DONE
    assert sorted(await journal.open_runs()) == ["c", "first"]


@changes
async def test_an_ended_run_takes_no_step(journal: Journal, changed: bool) -> None:
    await create(journal, "r")
    assert await store(journal, step("r", 1, ended=True, state=3, time=200.0)) is Outcome.DONE
    assert await store(journal, step("r", 2, batch="late", changed=changed)) is Outcome.STALE
    row = await journal.run("r")
    assert row is not None and (row.last_seq, row.ended_at, row.state) == (2, 200.0, 3)
    await journal.compact("r", b"summary")
    assert await store(journal, step("r", 2, batch="late", changed=changed)) is Outcome.DEPOSED


async def test_an_empty_group_is_committed(journal: Journal) -> None:
    assert list(await commit_group(journal)) == []


@pytest.fixture(params=["sqlite-full", "sqlite-normal"])
async def sqlite_journal(request: pytest.FixtureRequest, place: Any) -> AsyncIterator[SqliteJournal]:
    journal = place(request.param)
    await journal.open()
    yield journal
    await journal.close()


async def test_durability_3_a_failing_step_fails_alone_in_sqlite(
    sqlite_journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = sqlite_journal
    for number in range(5):
        await create(journal, f"r{number}")
    commit_step = sqlite_commit._commit_step

    def failing(db: sqlite3.Connection, step: Step) -> Any:
        result = commit_step(db, step)
        if step.run_id == "r2":
            raise sqlite3.OperationalError("planted")
        return result

    monkeypatch.setattr(sqlite_commit, "_commit_step", failing)
    steps = [step(f"r{number}", 1, records=(RecordRow("a", b"x"),)) for number in range(5)]
    results = await commit_group(journal, *steps, creation(new_run("new", "q")))
    assert [result for result in results if result is not Outcome.DONE] == [results[2]]
    assert isinstance(results[2], Unavailable) and results[2].retry_delay
    monkeypatch.undo()
    assert await store(journal, steps[2]) is Outcome.DONE
    for number in range(5):
        assert len(await stored_events(journal, f"r{number}")) == 2
        assert await journal.records(f"r{number}") == [(1, b"x")]
    assert await journal.request("default", "q") == (b"p", "new")


async def test_a_value_that_sqlite_refuses_fails_its_step_alone(sqlite_journal: SqliteJournal) -> None:
    journal = sqlite_journal
    for number in range(5):
        await create(journal, f"r{number}")
    steps = [step(f"r{number}", 1) for number in range(5)]
    for bad in (replace(steps[2], state=1 << 70, state_changed=True), replace(steps[2], batch_id="\ud800")):
        results = await commit_group(journal, bad)
        assert isinstance(results[0], InvalidArgument)
    bad = replace(steps[2], records=(RecordRow("\ud800", b"x"),))
    results = await commit_group(journal, *steps[:2], bad, *steps[3:])
    assert [result for result in results if result is not Outcome.DONE] == [results[2]]
    assert isinstance(results[2], InvalidArgument)
    assert await store(journal, steps[2]) is Outcome.DONE


@pytest.fixture
async def two(postgres_dsn: str) -> AsyncIterator[tuple[PostgresJournal, PostgresJournal]]:
    """The journals of two processes with one database."""
    journals = PostgresJournal(postgres_dsn), PostgresJournal(postgres_dsn)
    for journal in journals:
        await journal.open()
    yield journals
    for journal in journals:
        await journal.close()


Two = tuple[PostgresJournal, PostgresJournal]


async def test_durability_3_a_failing_step_fails_alone_in_postgres(two: Two) -> None:
    journal = two[0]
    for number in range(5):
        await create(journal, f"r{number}")
    steps = [step(f"r{number}", 1, records=(RecordRow("a", b"x"),)) for number in range(5)]
    bad = replace(steps[2], records=(RecordRow("a\0b", b"x"),))
    results = await commit_group(journal, *steps[:2], bad, *steps[3:], creation(new_run("new", "q")))
    assert [result for result in results if result is not Outcome.DONE] == [results[2]]
    assert isinstance(results[2], ArchonError)
    assert await store(journal, steps[2]) is Outcome.DONE
    for number in range(5):
        assert len(await stored_events(journal, f"r{number}")) == 2
        assert await journal.records(f"r{number}") == [(1, b"x")]
    assert await journal.request("default", "q") == (b"p", "new")


async def test_durability_3_a_server_error_fails_its_step_alone(two: Two, postgres_dsn: str) -> None:
    journal = two[0]
    for number in range(5):
        await create(journal, f"r{number}")
    connection = await asyncpg.connect(postgres_dsn)
    await connection.execute("ALTER TABLE archon_journal.steps ADD CONSTRAINT planted CHECK (batch_id <> 'bad')")
    steps = [step(f"r{number}", 1, batch="bad" if number == 3 else "") for number in range(5)]
    results = await commit_group(journal, *steps)
    assert [n for n, result in enumerate(results) if result is not Outcome.DONE] == [3]
    assert isinstance(results[3], ArchonError)
    await connection.execute("ALTER TABLE archon_journal.steps DROP CONSTRAINT planted")
    await connection.close()
    assert await store(journal, steps[3]) is Outcome.DONE


class Replica:
    """Claims runs and commits steps of those it owns, each event with its epoch and its name."""

    def __init__(self, name: str, journal: PostgresJournal, runs: Sequence[str], seed: int) -> None:
        self.name = name
        self.journal = journal
        self.runs = runs
        self.dice = random.Random(seed)
        self.owned: dict[str, tuple[int, int]] = {}
        self.acknowledged: dict[str, list[tuple[int, int]]] = {run_id: [] for run_id in runs}
        self.deposed = 0

    async def work(self, stop: asyncio.Event) -> None:
        await asyncio.gather(self._claim(stop), self._commit(stop))

    async def _claim(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            run_id = self.dice.choice(self.runs)
            row = await self.journal.claim(run_id, self.name)
            if row is not None:
                self.owned[run_id] = (row.epoch, row.last_seq)
            await asyncio.sleep(self.dice.random() * 0.01)

    async def _commit(self, stop: asyncio.Event) -> None:
        number = 0
        while not stop.is_set():
            owned = list(self.owned.items())
            if not owned:
                await asyncio.sleep(0)
                continue
            number += 1
            steps = [self._step(run_id, epoch, base, number) for run_id, (epoch, base) in owned]
            for each, result in zip(steps, await commit_group(self.journal, *steps), strict=True):
                await self._take(each, result)

    def _step(self, run_id: str, epoch: int, base: int, number: int) -> Step:
        data = frame(f"{epoch} {self.name}".encode())
        changed = self.dice.random() < 0.3
        batch = f"{self.name}-{number}"
        return replace(step(run_id, base, epoch=epoch, batch=batch, changed=changed), data=data)

    async def _take(self, each: Step, result: object) -> None:
        if result is Outcome.DONE:
            self.acknowledged[each.run_id].append((each.epoch, each.last_seq))
        if self.owned.get(each.run_id, (0, 0))[0] != each.epoch:
            return  # claimed again in the meantime
        if result is Outcome.DONE:
            self.owned[each.run_id] = (each.epoch, each.last_seq)
        elif result is Outcome.STALE:
            row = await self.journal.run(each.run_id)
            assert row is not None
            self.owned[each.run_id] = (each.epoch, row.last_seq)
        else:
            assert result is Outcome.DEPOSED
            self.deposed += 1
            del self.owned[each.run_id]


async def test_durability_9_claims_racing_with_steps_fence_them(two: Two) -> None:
    """Epochs of stored steps never decrease, no step is lost, and after a claim's first step only its owner writes."""
    runs = [f"r{number}" for number in range(8)]
    for run_id in runs:
        await create(two[0], run_id)
    replicas = [Replica(name, journal, runs, seed) for seed, (name, journal) in enumerate(zip("ab", two, strict=True))]
    stop = asyncio.Event()
    working = [asyncio.create_task(replica.work(stop)) for replica in replicas]

    def raced() -> bool:
        """Both replicas have lost runs to the other, and each run has steps of both."""
        acknowledged = [len(replica.acknowledged[run_id]) for replica in replicas for run_id in runs]
        return min(acknowledged) > 10 and all(replica.deposed > 5 for replica in replicas)

    await until(raced, 120)
    stop.set()
    await asyncio.gather(*working)
    for run_id in runs:
        stored = [content.decode().split() for content in (await stored_events(two[0], run_id))[1:]]
        epochs = [int(epoch) for epoch, _ in stored]
        assert epochs == sorted(epochs), "a step of an earlier epoch was stored"
        assert len({(epoch, name) for epoch, name in stored}) == len(set(epochs)), "an epoch has more than one owner"
        for replica in replicas:
            for epoch, seq in replica.acknowledged[run_id]:
                assert stored[seq - 2] == [str(epoch), replica.name], "an acknowledged step is not stored"
        acknowledged = sum(len(replica.acknowledged[run_id]) for replica in replicas)
        assert acknowledged == len(stored) > 10
