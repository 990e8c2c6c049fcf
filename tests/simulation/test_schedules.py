"""Schedules under faults: several replicas that are killed and halted at random moments submit one run for each fire."""

from __future__ import annotations

import pytest

from archon_services.orchestrator.schedules.schedule import Overlap
from tests.simulation.loop import run_virtual
from tests.simulation.schedules import simulate

POLICIES = [Overlap.ALLOW_ALL, Overlap.SKIP, Overlap.BUFFER_ALL, Overlap.CANCEL_OTHER, Overlap.BUFFER_ONE]


@pytest.mark.parametrize("overlap", [Overlap.ALLOW_ALL, pytest.param(Overlap.SKIP, marks=pytest.mark.search)])
def test_replicas_that_die_submit_one_run_for_each_fire(overlap: Overlap) -> None:
    world = run_virtual(simulate(1, overlap))
    assert max(world.submits.values()) > 1, "no fire was tried by two replicas: the faults struck nothing"


@pytest.mark.search
@pytest.mark.parametrize("overlap", POLICIES)
@pytest.mark.parametrize("first", [100, 200])
def test_many_courses_have_one_run_for_each_fire(overlap: Overlap, first: int) -> None:
    worlds = [run_virtual(simulate(seed, overlap)) for seed in range(first, first + 10)]
    assert max(most for world in worlds for most in world.submits.values()) > 1, "no fire was tried by two replicas"
