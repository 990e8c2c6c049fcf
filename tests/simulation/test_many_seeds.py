"""Seeds by the hundred hold, and have every fault without having been chosen for it."""

from __future__ import annotations

import pytest

from tests.simulation.courses import COURSES
from tests.simulation.played import assert_seeds_hold

pytestmark = pytest.mark.search

FIRST = 1000
SEEDS = {
    "plain": 50,
    "plans with people": 15,
    "stateful": 18,
    "plans": 18,
    "forks and stops": 15,
    "plans that are checked": 15,
    "plans in processes": 35,
    "plans with quorums": 18,
    "agents with messages": 18,
    "auctions": 16,
    "work lists": 18,
    "leases of tools": 40,
}
"""The number of seeds by course."""


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("course", COURSES)
def test_seeds_in_a_row_hold_every_line_of_the_validator(course: str) -> None:
    assert_seeds_hold(course, range(FIRST, FIRST + SEEDS[course]))
