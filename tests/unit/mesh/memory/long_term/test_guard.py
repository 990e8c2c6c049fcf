"""The breaker in front of stores and embedders, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from archon.errors import InvalidArgument, Unavailable
from archon_mesh.memory.long_term.guard import FIRST_PAUSE, LONGEST_PAUSE, Guard


class Store:
    """What is called: it fails while it is down."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls = 0
        self.error: Exception | None = None
        self.guard = Guard("store", limit=0.02, clock=lambda: self.now)

    async def call(self) -> str:
        self.calls += 1
        if self.error is not None:
            raise self.error
        return "answer"

    async def through(self) -> str:
        return await self.guard.call(self.call)


async def test_after_a_failure_calls_fail_at_once() -> None:
    store = Store()
    assert await store.through() == "answer"
    store.error = Unavailable("down")
    for _ in range(5):
        with pytest.raises(Unavailable):
            await store.through()
    assert store.calls == 2


async def test_a_probe_closes_the_breaker() -> None:
    store = Store()
    store.error = Unavailable("down")
    with pytest.raises(Unavailable):
        await store.through()
    store.error, store.now = None, FIRST_PAUSE
    assert [await store.through() for _ in range(3)] == ["answer"] * 3


async def test_pauses_double_up_to_a_limit() -> None:
    store = Store()
    store.error = Unavailable("down")
    for pause in (5.0, 10.0, 20.0, 40.0, LONGEST_PAUSE, LONGEST_PAUSE):
        with pytest.raises(Unavailable):
            await store.through()
        with pytest.raises(Unavailable) as refusal:
            await store.through()
        assert refusal.value.retry_delay == pause
        store.now += pause


async def test_a_frozen_store_is_a_failure() -> None:
    store = Store()
    with pytest.raises(Unavailable, match="no answer"):
        await store.guard.call(asyncio.Event().wait)
    assert store.guard.is_open


async def test_only_one_probe_is_let_through() -> None:
    store = Store()
    store.error = Unavailable("down")
    with pytest.raises(Unavailable):
        await store.through()
    store.error, store.now = None, FIRST_PAUSE
    entered, leave = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        entered.set()
        await leave.wait()
        return "slow"

    probe = asyncio.create_task(store.guard.call(slow, limit=30))
    await entered.wait()
    with pytest.raises(Unavailable):
        await store.through()
    leave.set()
    assert await probe == "slow"
    assert await store.through() == "answer"


async def test_an_error_of_the_caller_is_no_failure() -> None:
    store = Store()
    store.error = InvalidArgument("wrong")
    with pytest.raises(InvalidArgument):
        await store.through()
    assert not store.guard.is_open
