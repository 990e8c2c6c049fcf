"""Intervals and tests of evals against published values, and their coverage."""

from __future__ import annotations

import math
import random

import pytest

from archon.errors import InvalidArgument
from archon_mesh.evals.statistics import (
    bootstrap,
    clustered_wilson,
    holm,
    permutation_p,
    sign_flip_p,
    t_cdf,
    t_interval,
    t_quantile,
    welch,
    wilson,
)


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (8, 10, 0.4902, 0.9433),
    ],
)
def test_wilson_has_the_published_intervals(successes: int, trials: int, low: float, high: float) -> None:
    interval = wilson(successes, trials)  # Newcombe 1998, table I, method 3
    assert interval.low == pytest.approx(low, abs=5e-5) and interval.high == pytest.approx(high, abs=5e-5)
    mirrored = wilson(trials - successes, trials)
    assert mirrored.low == pytest.approx(1 - interval.high) and mirrored.high == pytest.approx(1 - interval.low)


def test_a_rate_without_trials_is_refused() -> None:
    for successes, trials in ((0, 0), (3, 2), (-1, 2)):
        with pytest.raises(InvalidArgument, match="are no rate"):
            wilson(successes, trials)
    for empty in (t_interval, bootstrap, clustered_wilson):
        with pytest.raises(InvalidArgument):
            empty([])
    with pytest.raises(InvalidArgument, match="confidence"):
        wilson(1, 2, confidence=1.0)


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.7062), (2, 4.3027), (5, 2.5706), (10, 2.2281), (30, 2.0423), (120, 1.9799), (10**7, 1.9600)],
)
def test_quantiles_of_student_are_those_of_the_tables(freedom: float, quantile: float) -> None:
    assert t_quantile(0.975, freedom) == pytest.approx(quantile, abs=5e-5)
    assert t_quantile(0.025, freedom) == -t_quantile(0.975, freedom)
    assert t_cdf(t_quantile(0.9, freedom), freedom) == pytest.approx(0.9)


def test_the_interval_of_a_mean_is_students() -> None:
    interval = t_interval([1, 2, 3, 4, 5])
    assert (interval.mean, interval.count) == (3, 5)
    assert interval.high - 3 == pytest.approx(1.9632, abs=5e-5) == 3 - interval.low
    assert math.isinf(t_interval([1]).high)


def test_the_bootstrap_is_near_student_and_repeatable() -> None:
    draw = random.Random(1)
    values = [draw.gauss(10, 2) for _ in range(50)]
    first, student = bootstrap(values), t_interval(values)
    assert first == bootstrap(values)
    assert first.low == pytest.approx(student.low, abs=0.1) and first.high == pytest.approx(student.high, abs=0.1)


def test_mcnemar_is_the_flipping_of_signs_of_passes() -> None:
    assert sign_flip_p([-1] * 5) == pytest.approx(0.0625)
    assert sign_flip_p([-1] * 6 + [0] * 44) == pytest.approx(0.03125)
    assert sign_flip_p([1] * 9 + [-1] + [0] * 5) == pytest.approx(0.021484375)  # binomial test of 1 in 10
    assert sign_flip_p([0] * 10) == sign_flip_p([]) == 1.0


def test_flipped_signs_are_exact_for_few_and_drawn_for_many() -> None:
    assert sign_flip_p([1.0, 2.0, 3.0]) == pytest.approx(0.25)  # +++ and --- of 8
    assert sign_flip_p([1.0, 2.0, -3.0]) == pytest.approx(1.0)
    many = [0.1 * number for number in range(1, 30)]
    assert sign_flip_p(many) < 0.001
    assert sign_flip_p(many) == sign_flip_p(many)


def test_a_permutation_compares_means_without_pairs() -> None:
    assert permutation_p([1, 2, 3, 4], [11, 12, 13, 14]) == pytest.approx(2 / 70, abs=0.01)
    assert permutation_p([1, 2, 3], [1, 2, 3]) == pytest.approx(1.0)


def test_welch_and_students_intervals_are_those_of_sleep() -> None:
    first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]  # Student 1908, as R has it: t.test(extra ~ group)
    second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    found = welch(second, first)
    assert found.low == pytest.approx(-3.3654832) and found.high == pytest.approx(0.2054832, abs=1e-6)
    paired = t_interval([one - other for one, other in zip(first, second, strict=True)])
    assert paired.low == pytest.approx(-2.4598858) and paired.high == pytest.approx(-0.7001142)
    assert math.isinf(welch([1], [2, 3]).high) and welch([1, 1], [2, 2]).low == 1


def test_holm_adjusts_as_published() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == [] and holm([0.6, 0.7]) == [1.0, 1.0]


def test_repetitions_that_agree_count_as_one_trial() -> None:
    alike = clustered_wilson([[True] * 5] * 6 + [[False] * 5] * 4)
    assert (alike.low, alike.high) == (wilson(6, 10).low, wilson(6, 10).high)
    assert clustered_wilson([[True] * 5] * 10) == wilson(10, 10)
    assert clustered_wilson([[True], [False], [True]]) == wilson(2, 3)
    assert clustered_wilson([[True, False]] * 10).count == 20
    mixed = clustered_wilson([[True, True, True], [True, False, True], [False, False, True], [False, False, False]])
    assert 4 < mixed.count < 12


@pytest.mark.slow
def test_intervals_of_repeated_cases_have_the_true_rate() -> None:
    draw, covered, naive, rounds = random.Random(7), 0, 0, 2_000
    for _ in range(rounds):
        groups = [[draw.random() < rate for _ in range(5)] for rate in (draw.betavariate(1.4, 0.6) for _ in range(20))]
        interval, plain = clustered_wilson(groups), wilson(sum(map(sum, groups)), 100)
        covered += interval.low <= 0.7 <= interval.high
        naive += plain.low <= 0.7 <= plain.high
    assert 0.92 < covered / rounds < 0.98
    assert naive / rounds < 0.9


@pytest.mark.slow
def test_noise_is_called_a_change_in_one_comparison_of_twenty() -> None:
    draw, rounds = random.Random(3), 1_000
    false = sum(
        sign_flip_p([(draw.random() < 0.8) - (draw.random() < 0.8) for _ in range(50)]) <= 0.05 for _ in range(rounds)
    )
    assert false / rounds <= 0.065
