"""Some hundred seeds hold, each seed replays exactly, and the validator catches planted bugs."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulation.bugs import BUGS
from tests.simulation.course import run_seed
from tests.simulation.run import attempt
from tests.simulation.validator import Violation

SEEDS = 100

DOCS = Path(__file__).parents[2] / "docs" / "testing" / "simulation.md"
ROW = re.compile(r"^\| (?P<bug>[^|]+) \| (?P<line>[VD]\d+) \| (?P<seed>\d+) \|$", re.MULTILINE)

FAULTS = (
    "agent frozen",
    "agent killed",
    "agent's machine gone",
    "agent's own failure",
    "answer to a submit lost",
    "clock jumps",
    "delay",
    "delegation cancelled",
    "disk full for a while",
    "frame of a lower epoch refused",
    "journal fails after the commit",
    "journal fails before the commit",
    "journal gone for 30 s",
    "journal out of a replica's reach",
    "journal read fails",
    "journal slow",
    "journal slow for a while",
    "left without waiting",
    "item published",
    "living owner expired",
    "message of an agent doubled",
    "message to an agent doubled",
    "newer answer sent",
    "order at a replica that is not the owner",
    "partition both ways",
    "partition to the agent",
    "partition to the replica",
    "person asked",
    "person asked meanwhile",
    "question answered",
    "question left open",
    "replica frozen",
    "replica killed",
    "replica restarted",
    "rolling restart",
    "run cancelled",
    "run of a short time",
    "run paused",
    "slow work",
    "stream of an agent lost",
    "stream to an agent lost",
    "submitted at two replicas at once",
)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_seeds_with_every_fault_hold_every_line_of_the_validator() -> None:
    fired: Counter[str] = Counter()
    inputs = passed = kinds = 0
    for seed in range(SEEDS):
        outcome = attempt(seed)
        assert not isinstance(outcome, str), outcome
        fired += outcome.fired
        inputs, passed, kinds = inputs + outcome.inputs, passed + 1, kinds + len(outcome.fired)
    silent = [fault for fault in FAULTS if not fired[fault]]
    assert not silent, f"these faults never fired: {silent}"
    assert inputs >= 190 * passed, "inputs to engines"
    assert kinds >= 3 * passed, "kinds of fault"


def test_a_turn_after_a_backoff_before_its_timer_places_the_task() -> None:
    """In this seed another input arrives in the millisecond after the end of the backoff, before its timer fires."""
    run_seed(1828)


def test_a_seed_replays_exactly_in_this_process_and_in_another() -> None:
    code = "import logging; logging.disable(50); from tests.simulation.course import run_seed; print(run_seed(7))"
    elsewhere = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run_seed(7) == run_seed(7)
    assert elsewhere.stdout.strip() == str(run_seed(7))


def test_a_failing_seed_fails_again_in_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS["heartbeats are never checked"][1](monkeypatch)
    seed = int(
        next(row["seed"] for row in ROW.finditer(DOCS.read_text()) if row["bug"] == "heartbeats are never checked")
    )
    first = attempt(seed)
    assert isinstance(first, str)
    assert str(seed) in first
    assert attempt(seed) == first


def test_the_table_of_planted_bugs_names_every_bug_and_line() -> None:
    rows = {row["bug"]: row["line"] for row in ROW.finditer(DOCS.read_text())}
    assert rows == {name: line for name, (line, _) in BUGS.items()}
    assert {f"V{number}" for number in range(1, 14)} <= set(rows.values())


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught_by_its_line_in_its_seed(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    line, plant = BUGS[bug]
    seed = int(next(row["seed"] for row in ROW.finditer(DOCS.read_text()) if row["bug"] == bug))
    plant(monkeypatch)
    with pytest.raises(Violation, match=f"^{line}:"):
        run_seed(seed)
