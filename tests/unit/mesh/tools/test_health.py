"""The health of a tool."""

from __future__ import annotations

from archon_mesh.tools.breaker import BreakerState
from archon_mesh.tools.health import RECENT, SLOW_SECONDS, HealthRecord, ToolHealth
from tests.fixtures.virtual_time import VirtualTime


def test_latencies_are_those_of_the_last_hundred_calls() -> None:
    record = HealthRecord(VirtualTime().clock)
    assert record.snapshot(BreakerState.CLOSED) == ToolHealth()
    record.count(0.0012345, ok=True, timed_out=False)
    only = record.snapshot(BreakerState.OPEN)
    assert (only.mean_latency_ms, only.p95_latency_ms, only.breaker) == (1.234, 1.234, BreakerState.OPEN)
    for number in range(RECENT):
        record.count(float(number), ok=True, timed_out=False)
    health = record.snapshot(BreakerState.CLOSED)
    assert (health.calls, health.mean_latency_ms, health.p95_latency_ms) == (RECENT + 1, 49_500.0, 95_000.0)


def test_failures_and_timeouts_are_counted() -> None:
    record = HealthRecord(VirtualTime().clock)
    for ok, timed_out in ((True, False), (False, False), (False, True)):
        record.count(1.0, ok=ok, timed_out=timed_out)
    record.cached += 4
    health = record.snapshot(BreakerState.CLOSED)
    assert (health.calls, health.failures, health.timeouts, health.cached) == (3, 2, 1, 4)


def test_a_slow_tool_is_slow_for_a_while_or_until_it_answers() -> None:
    time = VirtualTime()
    record = HealthRecord(time.clock)
    record.mark_slow()
    time.now += SLOW_SECONDS - 0.001
    record.count(1.0, ok=False, timed_out=False)
    assert (record.is_slow, record.snapshot(BreakerState.CLOSED).slow) == (True, True)
    time.now += 0.001
    assert not record.is_slow
    record.mark_slow()
    record.count(1.0, ok=True, timed_out=False)
    assert not record.is_slow
