"""A leak is caught, and other growth is not reported as a leak."""

from __future__ import annotations

import math
import random

import pytest

from tests.bench.flat import Limit, Sample, course

RSS = Limit(growth=5.0, per_hour=10.0)


def sampled(minutes: float, value: object, *, seed: int = 1, noise: float = 1.0) -> list[Sample]:
    """Returns samples every ten seconds with noise; `value` is a function of the minute."""
    chance = random.Random(seed)
    assert callable(value)
    return [(at, value(at / 60) + chance.gauss(0, noise)) for at in range(0, int(minutes * 60) + 1, 10)]


@pytest.mark.parametrize("minutes", [20, 60, 240])
def test_a_leak_of_1_mb_a_minute_is_caught(minutes: float) -> None:
    for seed in range(5):
        assert not course(sampled(minutes, lambda minute: 60 + minute, seed=seed)).is_flat(RSS), seed


def test_a_leak_shows_its_slope() -> None:
    measured = course(sampled(60, lambda minute: 60 + minute, noise=0.0))
    assert measured.per_hour == pytest.approx(60, abs=1)
    assert measured.last - measured.first == pytest.approx(33.75, abs=2)


def test_a_leak_in_steps_is_caught() -> None:
    assert not course(sampled(60, lambda minute: 60 + 10 * (minute // 10))).is_flat(RSS)


def test_file_descriptors_that_leak_one_a_minute_are_caught() -> None:
    assert not course(sampled(60, lambda minute: 20 + int(minute), noise=0.0)).is_flat(Limit(5, 5))


@pytest.mark.parametrize("minutes", [2, 10, 60])
def test_noise_is_not_a_leak(minutes: float) -> None:
    for seed in range(20):
        assert course(sampled(minutes, lambda minute: 60.0, seed=seed, noise=1.5)).is_flat(RSS), seed


@pytest.mark.parametrize(
    "value",
    [
        lambda minute: 60 + 30 * (1 - math.exp(-minute / 5)),  # a cache that fills up
        lambda minute: 60 + 20 * (minute < 12),  # a warm-up that is released later
        lambda minute: 60 + 50 * (30 < minute < 33),  # a single peak
        lambda minute: 60 + minute % 7,  # a sawtooth
        lambda minute: 60 + 8 * (minute > 25),  # a single step
        lambda minute: 60 + minute / 20,  # 3 MB an hour
        lambda minute: 100 - minute,
    ],
)
def test_growth_within_the_limit_is_flat(value: object) -> None:
    assert course(sampled(60, value)).is_flat(RSS)


def test_short_runs_may_grow_a_little_and_no_samples_are_flat() -> None:
    assert course(sampled(2, lambda minute: 60 + minute)).is_flat(RSS)
    assert course([]).is_flat(RSS)
    assert course([(0.0, 5.0)]).is_flat(RSS)
