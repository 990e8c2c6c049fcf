"""The circuit breaker of a tool."""

from __future__ import annotations

from archon_mesh.tools.breaker import FAILURES, OPEN_SECONDS, BreakerState, CircuitBreaker
from tests.fixtures.virtual_time import VirtualTime


def state(breaker: CircuitBreaker) -> BreakerState:
    return breaker.state


def opened(time: VirtualTime) -> CircuitBreaker:
    breaker = CircuitBreaker(time.clock)
    for _ in range(FAILURES):
        assert breaker.refusal("t") is None
        breaker.failed(is_probe=breaker.enter())
    return breaker


def test_failures_in_a_row_open_it_and_a_success_resets_the_count() -> None:
    breaker = CircuitBreaker(VirtualTime().clock)
    for _ in range(3):
        for _ in range(FAILURES - 1):
            breaker.failed(is_probe=breaker.enter())
        breaker.succeeded(is_probe=breaker.enter())
    assert state(breaker) is BreakerState.CLOSED


def test_open_breaker_refuses_calls_with_a_delay() -> None:
    time = VirtualTime()
    breaker = opened(time)
    refused = breaker.refusal("search")
    assert refused is not None
    assert str(refused) == "tool search is off for 30 s, after 5 failures in a row"
    assert refused.retry_delay == OPEN_SECONDS
    assert state(breaker) is BreakerState.OPEN


def test_half_open_breaker_lets_one_probe_through() -> None:
    time = VirtualTime()
    breaker = opened(time)
    time.now += OPEN_SECONDS
    assert state(breaker) is BreakerState.HALF_OPEN
    assert breaker.refusal("t") is None
    is_probe = breaker.enter()
    assert is_probe
    assert breaker.refusal("t") is not None, "one probe at a time"
    breaker.succeeded(is_probe=is_probe)
    assert state(breaker) is BreakerState.CLOSED
    assert breaker.refusal("t") is None


def test_failed_probe_opens_it_again() -> None:
    time = VirtualTime()
    breaker = opened(time)
    time.now += OPEN_SECONDS
    breaker.failed(is_probe=breaker.enter())
    assert state(breaker) is BreakerState.OPEN
    time.now += OPEN_SECONDS
    assert breaker.refusal("t") is None


def test_cancelled_probe_makes_room_for_another() -> None:
    time = VirtualTime()
    breaker = opened(time)
    time.now += OPEN_SECONDS
    breaker.left(is_probe=breaker.enter())
    assert breaker.refusal("t") is None


def test_call_from_before_the_opening_changes_nothing() -> None:
    time = VirtualTime()
    breaker = opened(time)
    time.now += OPEN_SECONDS / 2
    breaker.failed(is_probe=False)
    breaker.succeeded(is_probe=False)
    assert state(breaker) is BreakerState.OPEN
    time.now += OPEN_SECONDS / 2
    assert state(breaker) is BreakerState.HALF_OPEN, "the late failure did not prolong it"
