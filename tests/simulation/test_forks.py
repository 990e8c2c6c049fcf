"""Runs that are forked under all faults, at any replica and at any event."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.simulation.course import run_seed

SEEDS = 25
FORKS = 8


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_forks_hold_every_line_of_the_validator_under_faults() -> None:
    fired: Counter[str] = Counter()
    for seed in range(SEEDS):
        fired += run_seed(seed, forks=FORKS).fired
    assert fired["answer reused by a fork"] > SEEDS
