"""Recorded seeds with every fault hold, each seed replays exactly, and the validator catches planted bugs."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.variants import one_in
from tests.simulation.bugs import BUGS
from tests.simulation.course import run_seed
from tests.simulation.courses import COURSES, SEEDS
from tests.simulation.played import assert_seeds_hold
from tests.simulation.replica import Replica
from tests.simulation.run import attempt
from tests.simulation.validator import Violation

pytestmark = pytest.mark.usefixtures("quiet")

DOCS = Path(__file__).parents[2] / "docs" / "testing" / "simulation.md"
ROW = re.compile(r"^\| (?P<bug>[^|]+) \| (?P<line>[VD]\d+) \| (?P<course>[^|]+) \| (?P<seed>\d+) \|$", re.MULTILINE)
ROWS = {row["bug"]: row for row in ROW.finditer(DOCS.read_text())}

REPLAYED = 7
ELSEWHERE = f"""
import logging
logging.disable(logging.CRITICAL)
from tests.simulation.course import run_seed
from tests.simulation.courses import COURSES
print([run_seed({REPLAYED}, **arguments) for arguments in [*COURSES.values()][::3]])
"""


@pytest.mark.parametrize("course", one_in(2, COURSES))
def test_seeds_with_every_fault_hold_every_line_of_the_validator(course: str) -> None:
    assert_seeds_hold(course, SEEDS[course])


def test_a_turn_after_a_backoff_before_its_timer_places_the_task() -> None:
    """In this seed another input arrives in the millisecond after the end of the backoff, before its timer fires."""
    run_seed(1828)


def test_an_attempt_that_its_own_step_stops_leaves_no_slot_reserved() -> None:
    """In this seed a step dispatches a check of the plan, and the failure of another step makes a replan of it."""
    run_seed(4097, **COURSES["plans that are checked"])


def test_a_seed_replays_exactly_in_this_process_and_in_another() -> None:
    """The courses are played in the reverse order here: none depends on those before."""
    elsewhere = subprocess.run([sys.executable, "-c", ELSEWHERE], capture_output=True, text=True, check=True)
    here = [run_seed(REPLAYED, **arguments) for arguments in [*COURSES.values()][::3][::-1]]
    assert elsewhere.stdout.strip() == str(here[::-1])


def test_placements_by_records_replay_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records decide about placements here; by themselves the replicas of the simulation keep them only."""
    start = Replica.start
    chosen: list[float] = []

    async def start_weighing(replica: Replica) -> None:
        await start(replica)

        async def weigh() -> None:
            while True:
                await asyncio.sleep(1)
                replica.pool.weigh(replica.runs.track_records)
                chosen.extend(made.factor for made in replica.pool._sessions.values() if made.factor != 1.0)

        replica.process.start(weigh())

    monkeypatch.setattr(Replica, "start", start_weighing)
    plays = [[run_seed(seed) for seed in (3, REPLAYED)] for _ in range(2)]
    assert plays[0] == plays[1]
    assert chosen, "records make a difference in these seeds"


def test_a_failing_seed_fails_again_in_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    bug = BUGS["heartbeats are never checked"]
    bug.plant(monkeypatch)
    seed = int(ROWS["heartbeats are never checked"]["seed"])
    first = attempt(seed, bug.course)
    assert isinstance(first, str)
    assert str(seed) in first
    assert attempt(seed, bug.course) == first


def test_the_table_of_planted_bugs_names_every_bug_and_line() -> None:
    assert {name: (row["line"], row["course"]) for name, row in ROWS.items()} == {
        name: (bug.line, bug.course) for name, bug in BUGS.items()
    }
    lines = {*range(1, 14), *range(17, 42)}
    assert {f"V{number}" for number in lines} <= {row["line"] for row in ROWS.values()}


@pytest.mark.parametrize("name", one_in(3, BUGS))
def test_a_planted_bug_is_caught_by_its_line_in_its_seed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the engine's choices changed, search again: python -m tests.simulation.run --bugs"""
    bug = BUGS[name]
    bug.plant(monkeypatch)
    with pytest.raises(Violation, match=bug.violation):
        run_seed(int(ROWS[name]["seed"]), **COURSES[bug.course])
