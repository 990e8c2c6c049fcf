"""The rate at which the messages of an instance are read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from archon_services.orchestrator.sessions.message_rate import BURST, PER_SECOND, MessageRate


def test_a_burst_is_read_at_once_and_what_follows_at_the_rate() -> None:
    rate = MessageRate()
    for _ in range(BURST):
        assert rate.wait(10.0) == 0.0
        rate.take(10.0)
    assert rate.wait(10.0) == 1 / PER_SECOND
    assert rate.wait(10.0 + 2 / PER_SECOND) == 0.0
    rate.take(10.0 + 2 / PER_SECOND)
    rate.take(10.0 + 2 / PER_SECOND)
    assert rate.wait(10.0 + 2 / PER_SECOND) > 0.0
    assert rate.wait(1_000.0) == 0.0


def test_a_burst_waits_until_it_was_paid_for() -> None:
    rate = MessageRate()
    for _ in range(3 * BURST):  # frames of one message, which is read whole
        rate.take(0.0)
    assert rate.wait(0.0) == (2 * BURST + 1) / PER_SECOND


@given(st.lists(st.floats(0.0, 0.1), min_size=1, max_size=2_000))
def test_no_pattern_of_sending_is_read_faster_than_burst_and_rate(gaps: list[float]) -> None:
    rate, now, read = MessageRate(), 0.0, 0
    for gap in gaps:
        now += gap
        if rate.wait(now) == 0.0:
            rate.take(now)
            read += 1
    assert read <= BURST + now * PER_SECOND + 1


def test_a_clock_that_was_set_back_gives_nothing_and_takes_nothing() -> None:
    rate = MessageRate()
    for _ in range(BURST):
        rate.take(100.0)
    assert rate.wait(50.0) == 1 / PER_SECOND
