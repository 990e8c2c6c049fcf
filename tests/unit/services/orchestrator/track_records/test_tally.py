"""The arithmetic of track records: sums that decay, and that replicas add."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon_services.orchestrator.track_records.tally import (
    BUCKETS_PER_OCTAVE,
    MAX_BUCKET,
    MIN_MEASURED,
    OPINIONS_HALF_LIFE,
    SHORTEST,
    TASKS_HALF_LIFE,
    Tally,
    bucket_end,
    bucket_of,
    decode,
    merged,
)

SUMS = ("completed", "failed", "seconds", "cost", "bids", "bids_kept", "conflicts", "conflicts_won", "ratings", "stars")
amounts = st.floats(0, 1e6)
times = st.floats(1e9, 1e9 + 30 * TASKS_HALF_LIFE)
buckets = st.dictionaries(st.integers(0, MAX_BUCKET), st.floats(0.01, 1e3), max_size=6)
tallies = st.builds(Tally, times, *[amounts] * len(SUMS), times=buckets)


def copy(tally: Tally) -> Tally:
    return replace(tally, times=dict(tally.times))


def total(*parts: Tally) -> Tally:
    out = Tally()
    for part in parts:
        out.add(part)
    return out


def assert_same(one: Tally, other: Tally) -> None:
    assert one.time == other.time
    for name in SUMS:
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-9, abs=1e-6), name
    for bucket in one.times.keys() | other.times.keys():
        assert one.times.get(bucket, 0.0) == pytest.approx(other.times.get(bucket, 0.0), abs=1e-5)


@given(tallies, tallies, tallies)
def test_the_order_of_replicas_does_not_matter(a: Tally, b: Tally, c: Tally) -> None:
    assert_same(total(a, b, c), total(c, total(b, a)))


@given(tallies, tallies)
def test_a_sum_is_the_same_before_and_after_a_decay(a: Tally, b: Tally) -> None:
    later = max(a.time, b.time) + TASKS_HALF_LIFE / 3
    first = total(a, b)
    first.age(later)
    a, b = copy(a), copy(b)
    a.age(later)
    b.age(later)
    assert_same(first, total(a, b))


@given(tallies, tallies)
def test_a_part_that_is_taken_back_leaves_the_rest(a: Tally, b: Tally) -> None:
    rest = total(a, b)
    rest.add(b, -1)
    expected = copy(a)
    expected.age(max(a.time, b.time))
    assert_same(rest, expected)


@given(tallies, st.floats(0, 1e6))
def test_sums_never_grow_with_time(tally: Tally, seconds: float) -> None:
    aged = copy(tally)
    aged.age(tally.time + seconds)
    assert all(getattr(aged, name) <= getattr(tally, name) for name in SUMS)
    assert aged.success_rate == pytest.approx(tally.success_rate, abs=1e-6) or aged.tasks < 1e-5
    set_back = copy(tally)
    set_back.age(tally.time - seconds)
    assert_same(set_back, tally)


@given(tallies)
def test_a_stored_tally_is_read_back(tally: Tally) -> None:
    assert decode(tally.encode()) == tally
    assert_same(decode(merged([tally.encode(), b"no tally", b"[]", Tally().encode()])), tally)


@given(tallies)
def test_rates_and_means_stay_in_their_ranges(tally: Tally) -> None:
    tally.add(replace(tally, ratings=tally.ratings * 2, conflicts=tally.conflicts * 3, times={}), -1)
    for rate in (tally.success_rate, tally.bids_kept_rate, tally.conflicts_won_rate):
        assert 0 <= rate <= 1
    assert tally.mean_stars == 0 or 1 <= tally.mean_stars <= 5
    assert tally.mean_seconds >= 0 and tally.mean_cost >= 0 and tally.tasks >= 0


@given(st.lists(st.floats(0.002, 1e5), min_size=MIN_MEASURED, max_size=200))
def test_the_p95_is_the_end_of_the_bucket_of_the_exact_one(measured: list[float]) -> None:
    tally = Tally(completed=len(measured))
    for seconds in measured:
        tally.times[bucket_of(seconds)] = tally.times.get(bucket_of(seconds), 0) + 1
    exact = sorted(measured)[math.ceil(0.95 * len(measured)) - 1]
    assert exact * (1 - 1e-6) <= tally.p95_seconds <= exact * 2 ** (1 / BUCKETS_PER_OCTAVE) * (1 + 1e-3)


@given(st.floats(0, 1e9))
def test_each_time_is_in_the_bucket_that_it_ends_in(seconds: float) -> None:
    bucket = bucket_of(seconds)
    assert 0 <= bucket <= MAX_BUCKET
    assert seconds <= bucket_end(bucket) * (1 + 1e-3) or bucket == MAX_BUCKET
    assert bucket == 0 or seconds >= bucket_end(bucket - 1) * (1 - 1e-3)
    assert bucket_of(bucket_end(bucket)) in (bucket, min(MAX_BUCKET, bucket + 1)), SHORTEST


def test_tasks_count_half_after_a_day_and_ratings_after_a_week() -> None:
    tally = Tally(1e9, completed=8, ratings=8)
    tally.age(1e9 + TASKS_HALF_LIFE)
    assert tally.completed == pytest.approx(4)
    tally.age(1e9 + OPINIONS_HALF_LIFE)
    assert tally.ratings == pytest.approx(4)
    assert tally.completed == pytest.approx(8 / 2**7)


def test_a_few_attempts_have_no_p95() -> None:
    assert Tally(completed=MIN_MEASURED - 1, times={10: MIN_MEASURED - 1}).p95_seconds == 0
    assert Tally(completed=MIN_MEASURED, times={10: MIN_MEASURED}).p95_seconds == bucket_end(10)


@pytest.mark.parametrize("data", [b"", b"[]", b"1", b'{"time": null}', b'{"completed": 1e999}', b'{"times": [1]}'])
def test_other_bytes_are_no_tally(data: bytes) -> None:
    with pytest.raises((ValueError, TypeError)):
        decode(data)
