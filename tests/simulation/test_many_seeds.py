"""Seeds by the hundred hold, and have every fault without having been chosen for it."""

from __future__ import annotations

import pytest

from tests.simulation.courses import COURSES
from tests.simulation.played import assert_seeds_hold

pytestmark = pytest.mark.slow

FIRST = 1000
SEEDS = {
    "plain": 80,
    "plans with people": 25,
    "stateful": 30,
    "plans": 30,
    "forks and stops": 25,
    "plans that are checked": 25,
    "plans in processes": 60,
    "plans with quorums": 30,
    "agents with messages": 30,
    "auctions": 30,
    "work lists": 30,
    "leases of tools": 60,
}
"""The number of seeds by course."""


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("course", COURSES)
def test_seeds_in_a_row_hold_every_line_of_the_validator(course: str) -> None:
    assert_seeds_hold(course, range(FIRST, FIRST + SEEDS[course]))
