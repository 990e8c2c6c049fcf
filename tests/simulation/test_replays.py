"""Runs that were struck by faults replay equal to what happened: decided again, and run again in a mesh of their own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from itertools import product
from typing import Any, Final

import pytest

from archon.history import RunHistory
from archon_mesh.engine import RunState
from archon_services.orchestrator.journal import MemoryJournal
from archon_services.replay import Recording, decide_again, run_again
from tests.simulation import course
from tests.simulation.check import Check
from tests.simulation.courses import COURSES
from tests.simulation.validator import validate_run

pytestmark = pytest.mark.slow

PLAYED: Final = (
    "plain",
    "stateful",
    "forks and stops",
    "agents with messages",
    "work lists",
    "plans",
    "plans with people",
    "plans that are checked",
    "plans with quorums",
    "auctions",
)
"""Courses whose runs are run again: all of a mesh."""

RUNS: Final = 200
SEEDS: Final = int(os.environ.get("REPLAYED_SEEDS", "2"))
"""Seeds of each course: `make chaos REPLAYS=16` takes more."""

AT_A_TIME: Final = 6


def histories(monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], seeds: Iterable[int] = (0,)) -> list[RunHistory]:
    """The histories of the runs of these seeds of each course."""
    found: list[RunHistory] = []

    async def keep(journal: MemoryJournal, run_id: str, check: Check) -> RunState:
        state = await validate_run(journal, run_id, check)
        steps = await journal.recorded_steps(run_id, 0, 100_000, 2**40)
        found.append(RunHistory(run_id, steps[-1].last_seq, state.ended, tuple(steps)))
        return state

    monkeypatch.setattr("tests.simulation.course.validate_run", keep)
    for name, seed in product(names, seeds):
        options: dict[str, Any] = COURSES[name]
        course.run_seed(seed, **options)
    return found


@pytest.mark.search
def test_struck_runs_are_decided_again_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    found = histories(monkeypatch, PLAYED)
    assert len(found) >= RUNS
    recordings = [decide_again(history) for history in found]
    assert [recording.difference for recording in recordings if recording.difference is not None] == []
    assert all(len(recording.events) == recording.history.last_seq for recording in recordings)


@pytest.mark.search
async def test_struck_runs_run_again_as_they_did(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = asyncio.Semaphore(AT_A_TIME)
    played, differences = 0, []

    async def difference(recording: Recording) -> str:
        async with gate:
            again = await run_again(recording)
        if again.same and not again.stops and not again.played.late:
            return ""
        first, then = again.comparison.differences[:1], again.played
        return f"{recording.run_id}: {first} {again.stops} {then.unknown} {then.late} {then.contexts[:1]}"

    for seed in range(SEEDS):  # one by one: the histories of many seeds take gigabytes
        found = await asyncio.to_thread(histories, monkeypatch, PLAYED, (seed,))
        recordings = [recording for recording in map(decide_again, found) if not recording.undecided]
        reports = await asyncio.gather(*map(difference, recordings))
        played += len(reports)
        differences += [report for report in reports if report]
    assert played >= RUNS
    assert differences == []
