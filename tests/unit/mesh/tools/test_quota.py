"""Calls per minute, of a tool and of an engine."""

from __future__ import annotations

import asyncio

import pytest

from archon.call_window import MINUTE, CallWindow
from archon.errors import InvalidArgument, ResourceExhausted
from archon_mesh.tools import quota
from archon_mesh.tools.quota import EngineQuota
from tests.fixtures.virtual_time import VirtualTime


def test_window_lets_no_more_calls_start_within_any_minute() -> None:
    time = VirtualTime()
    window = CallWindow(2, time.clock)
    assert window.take()
    time.now += 50
    assert window.take()
    assert not window.take()
    refused = window.refusal("search")
    assert refused is not None
    assert str(refused) == "tool search may be called 2 times per minute: the next call in 10 s"
    assert refused.retry_delay == pytest.approx(10)
    time.now += 10
    assert window.refusal("search") is None
    assert window.take()
    assert not window.take(), "the call after 50 s still counts"


async def test_critical_calls_are_served_before_others() -> None:
    time = VirtualTime()
    limit = EngineQuota(1, time.clock, time.sleep)
    await limit.take(critical=False, seconds=1_000)
    served: list[str] = []

    async def take(name: str, critical: bool) -> None:
        await limit.take(critical=critical, seconds=1_000)
        served.append(name)

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for name, critical in (("a", False), ("b", False), ("C", True), ("d", False), ("E", True)):
            group.create_task(take(name, critical))
    assert served == ["C", "E", "a", "b", "d"]
    assert time.now == 1_000 + 5 * MINUTE


async def test_call_without_a_turn_in_its_time_is_refused() -> None:
    limit = EngineQuota(1, lambda: 0.0)
    await limit.take(critical=False, seconds=1)
    with pytest.raises(
        ResourceExhausted, match=r"quota of 1 calls per minute is used up: no turn within 0.01 s"
    ) as late:
        await limit.take(critical=True, seconds=0.01)
    assert late.value.retry_delay == MINUTE


async def test_waiting_calls_are_bounded_and_cancelled_ones_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota, "MAX_WAITING", 1)
    limit = EngineQuota(1, lambda: 0.0)
    await limit.take(critical=False, seconds=1)
    waiting = asyncio.create_task(limit.take(critical=False, seconds=30))
    await asyncio.sleep(0)
    with pytest.raises(ResourceExhausted, match="1 calls wait for the quota"):
        await limit.take(critical=True, seconds=30)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(ResourceExhausted, match="no turn"):
        await limit.take(critical=True, seconds=0.01)


def test_quota_out_of_range_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="the quota must be 1 to 10,000"):
        EngineQuota(0, lambda: 0.0)
