"""A stateful agent runs one query at a time, whichever event loop it is asked in."""

from __future__ import annotations

import asyncio
import threading

import pytest

from archon.errors import FailedPrecondition
from archon_mesh.agent import Agent
from archon_mesh.agent.loop.run_lock import RunLock
from archon_mesh.llm import ScriptedModel


async def test_queries_of_one_loop_wait_for_each_other() -> None:
    lock, order = RunLock(), list[str]()

    async def query(name: str) -> None:
        async with lock.taken():
            order.append(f"{name} begins")
            await asyncio.sleep(0)
            order.append(f"{name} ends")

    await asyncio.gather(query("a"), query("b"))
    assert order == ["a begins", "a ends", "b begins", "b ends"]


async def test_a_query_that_is_cancelled_while_it_waits_frees_the_lock() -> None:
    lock = RunLock()
    async with lock.taken():
        waiting = asyncio.create_task(lock.taken().__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    async with asyncio.timeout(5):
        async with lock.taken():
            pass


def test_a_query_of_another_thread_is_refused_while_one_runs() -> None:
    lock, begun, end = RunLock(), threading.Event(), threading.Event()

    async def hold() -> None:
        async with lock.taken():
            begun.set()
            await asyncio.to_thread(end.wait, 10)

    async def ask() -> None:
        async with lock.taken():
            pass

    thread = threading.Thread(target=asyncio.run, args=(hold(),))
    thread.start()
    assert begun.wait(10)
    with pytest.raises(FailedPrecondition, match="another event loop or thread"):
        asyncio.run(ask())
    end.set()
    thread.join(10)
    asyncio.run(ask())


def test_an_agent_runs_in_one_event_loop_after_another() -> None:
    agent = Agent("a", model=ScriptedModel(["1", "2"]))
    assert [agent.run("?"), agent.run("?")] == ["1", "2"]


def test_a_loop_that_died_within_a_run_does_not_hold_the_agent() -> None:
    lock = RunLock()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(lock.taken().__aenter__())
    loop.close()

    async def ask() -> bool:
        async with lock.taken():
            return True

    assert asyncio.run(ask())
