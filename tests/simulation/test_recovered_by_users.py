"""What users do to their runs under all faults: forks at any replica and any event, and agents stopped on purpose."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.simulation.course import run_seed

SEEDS = 25
FORKS = 8
STOPS = 6


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


def test_agents_that_stop_give_their_attempts_back_under_faults() -> None:
    fired: Counter[str] = Counter()
    for seed in range(SEEDS):
        fired += run_seed(seed, stops=STOPS).fired
    assert fired["agent stopped on purpose"] > SEEDS
    assert fired["attempt given back"] > SEEDS
