"""Plans in processes that ask people and have budgets hold every line of the validator, as runs of a mesh do."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

from tests.simulation.course import run_seed

pytestmark = pytest.mark.usefixtures("quiet")

FIRED: Final = (
    "attempt lost with its process",
    "person of a process answered twice",
    "person of a process silent",
    "person of a process: answered",
    "person of a process: approve",
    "person of a process: modify",
    "person of a process: reject",
    "plan continued",
    "plan of a process edited",
    "plan of a process ended: APPROVAL_REJECTED",
    "plan of a process made anew",
    "plan of a process paused",
    "process killed",
    "process stopped",
    "time-out in a process: default",
    "time-out in a process: escalate",
    "wrong person of a process answered",
)
"""Faults and consequences that must occur in some of the seeds."""

RARE: Final = (
    "person of a process gave a plan",
    "plan of a process ended: BUDGET_EXHAUSTED",
    "plan of a process ended: QUESTION_TIMED_OUT",
    "time-out in a process: abort",
)
"""Those that must occur in some of many seeds."""


@pytest.mark.parametrize(("first", "count"), [(0, 30), pytest.param(1000, 300, marks=pytest.mark.search)])
def test_plans_with_people_hold_every_line_in_processes(first: int, count: int) -> None:
    fired, states = Counter[str](), Counter[str]()
    for seed in range(first, first + count):
        outcome = run_seed(seed, local=True, people=True)
        fired += outcome.fired
        states += outcome.states
    expected = (*FIRED, *RARE) if count > 100 else FIRED
    assert [each for each in expected if not fired[each]] == []
    assert min(states["COMPLETED"], states["FAILED"]) > count / 5


def test_a_seed_with_people_in_processes_replays_exactly() -> None:
    assert run_seed(7, local=True, people=True) == run_seed(7, local=True, people=True)
