"""Rows 17 and 18: the network between the orchestrators and one agent drops all packets, one way or both."""

from __future__ import annotations

import pytest

from tests.failures.arena import Arena, hold
from tests.fixtures.waiting import eventually

pytestmark = pytest.mark.slow


@pytest.mark.search
@pytest.mark.parametrize(
    ("ways", "name", "order"),
    [
        (("up",), "partition: an agent hears nothing for 6 s, and is heard", 17),
        (("down",), "partition: an agent is not heard for 6 s, and hears", 17.5),
        pytest.param(("up", "down"), "partition: both ways for 6 s", 18, marks=pytest.mark.short),
    ],
    ids=["to-the-agent", "from-the-agent", "both"],
)
@pytest.mark.liveness
async def test_partition(valved_arena: Arena, ways: tuple[str, ...], name: str, order: float) -> None:
    arena = valved_arena
    victim = arena.by_role["thinker"][0]
    async with arena.row(name, order) as strike:
        await eventually(lambda: arena.at_work(victim))
        strike.begins()
        arena.valves[2].shut(*ways)  # the valve before a thinker
        await hold(6)
        arena.valves[2].open()
        before = arena.ended(victim)
        strike.ends()
    assert strike.lost, "the agent was cut off at work, and no attempt was journaled as lost"
    assert arena.ended(victim) > before, "the agent gets tasks again after the partition"
