"""Rows 5 to 9, 21 and 24: an orchestrator fails."""

from __future__ import annotations

import asyncio
import signal
import time

import pytest

from tests.failures.arena import Arena, hold, kill
from tests.failures.load import Load
from tests.failures.table import Row, keep
from tests.fixtures.postgres import PostgresServer

pytestmark = pytest.mark.slow

TAKEN_OVER_WITHIN = 20.0
"""Seconds. The lease of an owner is 3 s; the rest is for a slow machine."""


@pytest.mark.liveness
async def test_orchestrator_killed_idle(arena: Arena) -> None:
    began = time.monotonic()
    await arena.orchestrator.kill()
    run = (await arena.other.submit("x", roles=["reader", "thinker", "writer"], wait=15)).run
    assert run.answers
    keep(Row("orchestrator: kill -9 while idle", 5, time.monotonic() - began, 0.0, "1 completed by the other", 0))


@pytest.mark.short
@pytest.mark.liveness
async def test_orchestrator_killed_at_work(arena: Arena) -> None:
    async with arena.row("orchestrator: kill -9 while dispatching", 6) as strike:
        strike.begins()
        kill(arena.orchestrator)
    assert _taken_over(strike.load, strike.at) < TAKEN_OVER_WITHIN


@pytest.mark.liveness
async def test_orchestrator_killed_between_result_and_append(
    own_store_arena: tuple[Arena, PostgresServer],
) -> None:
    arena, store = own_store_arena
    async with arena.row("orchestrator: kill -9 between result and append", 7) as strike:
        store.freeze()  # results arrive but cannot be appended
        await hold(0.3)  # after a stall of 0.5 s or more replicas wait longer, because the store may have caused it
        strike.begins()
        kill(arena.orchestrator)
        store.thaw()
    assert _taken_over(strike.load, strike.at) < TAKEN_OVER_WITHIN


@pytest.mark.liveness
async def test_orchestrator_killed_between_append_and_ack(valved_arena: Arena) -> None:
    arena = valved_arena
    async with arena.row("orchestrator: kill -9 between append and ack", 8) as strike:
        for valve in arena.valves:
            valve.shut("up")  # results arrive and are appended; their acknowledgements do not reach the agents
        await hold(0.6)
        strike.begins()
        kill(arena.orchestrator)
        for valve in arena.valves:
            valve.open()


@pytest.mark.liveness
async def test_orchestrator_frozen(arena: Arena) -> None:
    async with arena.row("orchestrator: SIGSTOP, thawed after 8 s (a zombie)", 9) as strike:
        strike.begins()
        arena.orchestrator.send(signal.SIGSTOP)
        await hold(8)
        arena.orchestrator.send(signal.SIGCONT)
        strike.ends()
    assert _taken_over(strike.load, strike.at) < TAKEN_OVER_WITHIN


@pytest.mark.liveness
async def test_clock_jumps(jumping_arena: Arena) -> None:
    arena = jumping_arena
    async with arena.row("clock of one orchestrator: an hour ahead, then two back", 21) as strike:
        strike.begins()
        arena.orchestrator.send(signal.SIGUSR1)
        await hold(2)
        arena.orchestrator.send(signal.SIGUSR2)
        await hold(4)
        strike.ends()
    assert not [event for course in strike.load.courses for event in course.events if event.HasField("claimed")]


@pytest.mark.liveness
async def test_one_id_on_two_replicas(arena: Arena) -> None:
    async with arena.row("two submits with one id on two orchestrators", 24) as strike:
        strike.begins()
        for number in range(20):
            pair = await asyncio.gather(
                *(client.submit("x", roles=["reader"], request_id=f"q{number}") for client in arena.clients)
            )
            assert pair[0].run_id == pair[1].run_id
        strike.ends()


def _taken_over(load: Load, at: float) -> float:
    """Returns the seconds from the fault to the last claim of a run that was in progress then, by the owner's clock. A
    thawed zombie may accept a run in the name of its expired incarnation; another replica then claims that run too."""
    wall = time.time() - time.monotonic() + at
    claims = [
        event.time.ToNanoseconds() / 1e9 - wall
        for course in load.courses
        for event in course.events
        if event.HasField("claimed") and course.submitted < at
    ]
    assert claims, "no run was taken over"
    return max(claims)
