"""Rows 10 and 13 to 15: registry, memory, PostgreSQL fail."""

from __future__ import annotations

import asyncio

import pytest

from tests.failures.arena import Arena, hold
from tests.fixtures.postgres import PostgresServer

pytestmark = pytest.mark.slow


@pytest.mark.liveness
async def test_registry_killed(arena: Arena) -> None:
    async with arena.row("registry: kill -9, back after 5 s", 10) as strike:
        strike.begins()
        await arena.registry.kill()
        await hold(5)
        await arena.registry.start()
        strike.ends()


@pytest.mark.liveness
async def test_memory_killed(arena: Arena) -> None:
    async with arena.row("memory service: kill -9, back after 5 s", 13) as strike:
        strike.begins()
        await arena.memory.kill()
        await hold(5)
        await arena.memory.start()
        strike.ends()


@pytest.mark.short
@pytest.mark.liveness
async def test_postgres_restarted(own_store_arena: tuple[Arena, PostgresServer]) -> None:
    arena, store = own_store_arena
    async with arena.row("PostgreSQL: restarted", 14) as strike:
        strike.begins()
        await asyncio.to_thread(store.restart)
        strike.ends()


@pytest.mark.liveness
async def test_postgres_down(own_store_arena: tuple[Arena, PostgresServer]) -> None:
    arena, store = own_store_arena
    async with arena.row("PostgreSQL: killed, back after 30 s", 15) as strike:
        strike.begins()
        await asyncio.to_thread(store.kill)
        await hold(30)
        await asyncio.to_thread(store.start)
        strike.ends()
    assert not [event for course in strike.load.courses for event in course.events if event.HasField("claimed")], (
        "an outage of the database deposes no owner"
    )
