"""Chaos with few rounds and a fixed seed; `make chaos` runs more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.reign import IN_FLIGHT
from tests.chaos.run import chaos

pytestmark = pytest.mark.search

ROUNDS = 5
SEED = 7


@pytest.mark.liveness
async def test_every_invariant_holds_under_random_faults(tmp_path: Path) -> None:
    outcome = await chaos(ROUNDS, SEED, tmp_path, print)
    assert not outcome.findings
    assert outcome.rounds == ROUNDS
    assert min(outcome.in_flight) >= IN_FLIGHT
    assert len(outcome.runs) > 50
