"""Rows 1 to 4: an agent fails."""

from __future__ import annotations

import signal

import pytest

from tests.failures.arena import Arena, hold, kill
from tests.fixtures.waiting import eventually

pytestmark = pytest.mark.slow


@pytest.mark.short
@pytest.mark.liveness
async def test_agent_killed(arena: Arena) -> None:
    victim = arena.by_role["thinker"][0]
    async with arena.row("agent: kill -9 at work", 1) as strike:
        await eventually(lambda: arena.at_work(victim))
        strike.begins()
        kill(victim)
    assert strike.lost, "the agent was killed at work, and no attempt was journaled as lost"


@pytest.mark.liveness
async def test_agent_frozen(arena: Arena) -> None:
    async with arena.row("agent: SIGSTOP, thawed after 6 s", 2) as strike:
        strike.begins()
        arena.by_role["thinker"][0].send(signal.SIGSTOP)
        await hold(6)
        arena.by_role["thinker"][0].send(signal.SIGCONT)
        strike.ends()


@pytest.mark.liveness
async def test_agent_stuck(arena: Arena) -> None:
    async with arena.row("agent: its event loop stuck for 6 s", 3) as strike:
        strike.begins()
        arena.by_role["thinker"][0].send(signal.SIGUSR1)
        await hold(6)
        strike.ends()


@pytest.mark.liveness
async def test_agent_slow(arena: Arena) -> None:
    async with arena.row("agent: 16 times as slow as the others", 4) as strike:
        strike.begins()
        arena.by_role["thinker"][0].send(signal.SIGUSR2)
