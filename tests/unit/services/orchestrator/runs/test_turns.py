"""How long turns wait for further runs: never for runs that cannot come."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from archon_services.orchestrator.runs.scheduler import FULL_LOAD, LATELY, LONGEST_WAIT, Scheduler
from tests.fixtures.virtual_time import in_virtual_time, pass_time

ANSWER = 0.002
"""Seconds after which an agent answers a run's task."""


class Journal:
    """Commits at once, and counts the commits."""

    inline = True

    def __init__(self) -> None:
        self.groups: list[int] = []

    def commit(self, steps: Sequence[Any]) -> list[Any]:
        self.groups.append(len(steps))
        return list(steps)


class Run:
    """A run that takes a turn `turns` times; between two turns its agent answers."""

    new = None  # the run is its own step, which appends to the journal
    tenant = "default"

    def __init__(self, scheduler: Scheduler, turns: int) -> None:
        self.queued = self.in_flight = self.woken = False
        self.over = False
        self.ended = asyncio.Event()
        self._scheduler, self._left = scheduler, turns

    def decide(self) -> Any:
        return self

    def done(self, result: Any) -> None:
        self._left -= 1
        if self._left:
            asyncio.get_running_loop().call_later(ANSWER, self._scheduler.wake, self)
        else:
            self.over = True
            self.ended.set()

    def fail(self, error: Exception) -> None:
        raise error


async def play(number: int, turns: int, scheduler: Scheduler, *, apart: float = 0.0) -> float:
    """Plays runs that begin `apart` seconds after each other; returns the seconds that the longest took beyond what its
    agents took."""
    loop = asyncio.get_running_loop()
    runs = [Run(scheduler, turns) for _ in range(number)]

    async def took(run: Run, begin: float) -> float:
        await pass_time(begin)
        began = loop.time()
        scheduler.wake(run)
        await run.ended.wait()
        return loop.time() - began - (turns - 1) * ANSWER

    return max(await asyncio.gather(*(took(run, number * apart) for number, run in enumerate(runs))))


@pytest.mark.parametrize("number", [1, 2, 4, 6])
@in_virtual_time
async def test_a_few_runs_never_wait_for_further_ones(number: int) -> None:
    journal: Any = Journal()
    assert await play(number, 100, Scheduler(journal), apart=ANSWER / 7) == pytest.approx(0.0)


@in_virtual_time
async def test_runs_after_each_other_do_not_wait_however_fast_they_are() -> None:
    journal: Any = Journal()
    scheduler = Scheduler(journal)
    for _ in range(200):
        assert await play(1, 4, scheduler) == pytest.approx(0.0)


@in_virtual_time
async def test_many_runs_share_turns_within_the_longest_wait() -> None:
    journal: Any = Journal()
    turns = 100
    waited = await play(FULL_LOAD, turns, Scheduler(journal), apart=ANSWER / FULL_LOAD)
    assert 0.0 < waited <= turns * LONGEST_WAIT
    assert len(journal.groups) < turns * FULL_LOAD / 4


@pytest.mark.parametrize("number", [8, 10, 12])
@in_virtual_time
async def test_the_wait_grows_with_the_runs_under_way(number: int) -> None:
    fewer: Any = Journal()
    more: Any = Journal()
    less_waited = await play(number, 100, Scheduler(fewer), apart=0.0001)
    waited = await play(FULL_LOAD, 100, Scheduler(more), apart=0.0001)
    assert less_waited < waited


@in_virtual_time
async def test_the_wait_ends_with_the_load() -> None:
    journal: Any = Journal()
    scheduler = Scheduler(journal)
    assert await play(FULL_LOAD * 4, 50, scheduler, apart=0.0001) > 0.0
    await pass_time(2 * LATELY)
    assert await play(1, 50, scheduler) == pytest.approx(0.0)


@in_virtual_time
async def test_a_journal_that_syncs_is_not_waited_for() -> None:
    journal: Any = Journal()
    journal.inline = False
    results: list[asyncio.Future[list[Any]]] = []

    def commit(steps: Sequence[Any]) -> asyncio.Future[list[Any]]:
        results.append(asyncio.get_running_loop().create_future())
        results[-1].set_result(list(steps))
        return results[-1]

    journal.commit = commit
    assert await play(FULL_LOAD, 50, Scheduler(journal)) == pytest.approx(0.0)
