"""Intervals and tests for evals: pure functions of numbers, with a fixed seed where they draw samples.

Sources: Wilson 1927 (interval of a rate); Dean and Pagano 2015 (its effective sample size for clusters); Student 1908
(interval of a mean); Efron 1979 (percentile bootstrap); Fisher 1935 (tests by flipping signs and by permutation);
Welch 1947 (difference of two means); Holm 1979 (several tests at once).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from statistics import NormalDist, fmean, variance
from typing import Final

from archon.errors import InvalidArgument

CONFIDENCE: Final = 0.95
RESAMPLES: Final = 2_000
PERMUTATIONS: Final = 10_000
EXACT_UP_TO: Final = 12
"""Numbers of differences for which all signs are tried; of more, PERMUTATIONS are drawn."""

_SEED: Final = 20_240_229
_CLOSE: Final = 1e-12
_HALVINGS: Final = 200


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and the interval that has the true one with the confidence asked for; `count` independent values."""

    mean: float
    low: float
    high: float
    count: int


def wilson(successes: float, trials: float, confidence: float = CONFIDENCE) -> Interval:
    """Returns Wilson's interval of a rate: it is inside of 0 and 1, and not empty if all or none succeeded.

    Numbers need not be whole, so that an effective sample size can be used. Raises InvalidArgument if there is no
    trial, or there are more successes than trials.
    """
    if not 0 <= successes <= trials or trials <= 0:
        raise InvalidArgument(f"{successes:g} successes of {trials:g} trials are no rate")
    rate, z = successes / trials, _normal(confidence)
    scale = 1 + z * z / trials
    centre = (rate + z * z / (2 * trials)) / scale
    half = z / scale * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    low, high = max(0.0, centre - half), min(1.0, centre + half)
    return Interval(rate, 0.0 if successes == 0 else low, 1.0 if successes == trials else high, round(trials))


def clustered_wilson(groups: Sequence[Sequence[bool]], confidence: float = CONFIDENCE) -> Interval:
    """Returns Wilson's interval of a rate whose trials come in groups, such as repetitions of one case, which agree
    more than trials of different cases: the sample size is divided by the design effect that the groups show.

    If all trials ended alike, the agreement cannot be measured, and each group counts as one trial. `count` is the
    effective sample size, rounded. Raises InvalidArgument if there is no trial.
    """
    filled = [list(map(float, group)) for group in groups if group]
    trials = sum(map(len, filled))
    if not trials:
        raise InvalidArgument("a rate needs at least one trial")
    rate = sum(map(sum, filled)) / trials
    size = trials / (1 + (trials / len(filled) - 1) * _agreement(filled))
    return wilson(rate * size, size, confidence)


def _agreement(groups: Sequence[Sequence[float]]) -> float:
    """Returns the intraclass correlation by analysis of variance, from 0 to 1; 1 if it cannot be measured."""
    trials, count = sum(map(len, groups)), len(groups)
    if trials == count:
        return 0.0
    if count < 2:
        return 1.0
    mean = sum(map(sum, groups)) / trials
    between = sum(len(group) * (fmean(group) - mean) ** 2 for group in groups) / (count - 1)
    within = sum((value - fmean(group)) ** 2 for group in groups for value in group) / (trials - count)
    size = (trials - sum(len(group) ** 2 for group in groups) / trials) / (count - 1)
    total = between + (size - 1) * within
    return min(1.0, max(0.0, (between - within) / total)) if total > 0 else 1.0


def t_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Returns Student's interval of a mean; infinite for one value. Raises InvalidArgument if there is no value."""
    if not values:
        raise InvalidArgument("a mean needs at least one value")
    mean, count = fmean(values), len(values)
    if count == 1:
        return Interval(mean, -math.inf, math.inf, 1)
    half = t_quantile(0.5 + confidence / 2, count - 1) * math.sqrt(variance(values) / count)
    return Interval(mean, mean - half, mean + half, count)


def bootstrap(
    values: Sequence[float], confidence: float = CONFIDENCE, *, resamples: int = RESAMPLES, seed: int = _SEED
) -> Interval:
    """Returns the percentile bootstrap interval of a mean: for numbers far from a normal distribution, such as times
    and costs, if there are some twenty or more. Raises InvalidArgument if there is no value."""
    if not values:
        raise InvalidArgument("a mean needs at least one value")
    draw, count = random.Random(seed), len(values)
    means = sorted(fmean(draw.choices(values, k=count)) for _ in range(resamples))
    tail = (1 - confidence) / 2
    return Interval(fmean(values), _quantile(means, tail), _quantile(means, 1 - tail), count)


def sign_flip_p(differences: Sequence[float], *, permutations: int = PERMUTATIONS, seed: int = _SEED) -> float:
    """Returns the two-sided p-value of paired differences by flipping their signs: the part of all signs for which the
    sum is at least as far from 0. For passes and failures this is McNemar's exact test.

    It is exact if at most EXACT_UP_TO differences are not 0, or all of these have one size, else by drawn signs.
    """
    sizes = [abs(each) for each in differences if abs(each) > _CLOSE]
    if not sizes:
        return 1.0
    total = abs(sum(differences)) - _CLOSE * max(1.0, sum(sizes))
    if max(sizes) - min(sizes) <= _CLOSE:
        needed = total / sizes[0]
        count = len(sizes)
        ways = sum(math.comb(count, ups) for ups in range(count + 1) if abs(2 * ups - count) >= needed)
        return float(ways / (1 << count))
    if len(sizes) <= EXACT_UP_TO:
        sums = [abs(sum(map(float.__mul__, sizes, signs))) for signs in product((1.0, -1.0), repeat=len(sizes))]
        return sum(each >= total for each in sums) / len(sums)
    draw = random.Random(seed)
    hits = 0
    for _ in range(permutations):
        bits = draw.getrandbits(len(sizes))
        hits += abs(sum(size if bits >> index & 1 else -size for index, size in enumerate(sizes))) >= total
    return (hits + 1) / (permutations + 1)


def permutation_p(
    before: Sequence[float], after: Sequence[float], *, permutations: int = PERMUTATIONS, seed: int = _SEED
) -> float:
    """Returns the two-sided p-value of the difference of two means that are not paired, by drawn permutations. Raises
    InvalidArgument if one of them has no value."""
    if not before or not after:
        raise InvalidArgument("a mean needs at least one value")
    pool, count = [*before, *after], len(before)
    everything = sum(pool)

    def distance(first: float) -> float:
        return abs(first / count - (everything - first) / (len(pool) - count))

    observed, draw = distance(sum(before)) - _CLOSE * max(1.0, sum(map(abs, pool))), random.Random(seed)
    hits = sum(distance(sum(draw.sample(pool, count))) >= observed for _ in range(permutations))
    return (hits + 1) / (permutations + 1)


def welch(before: Sequence[float], after: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Returns Welch's interval of the difference `after` minus `before` of two means that are not paired; infinite if
    one of them has less than two values. Raises InvalidArgument if one of them has no value."""
    if not before or not after:
        raise InvalidArgument("a mean needs at least one value")
    mean, count = fmean(after) - fmean(before), len(before) + len(after)
    if min(len(before), len(after)) < 2:
        return Interval(mean, -math.inf, math.inf, count)
    first, second = variance(before) / len(before), variance(after) / len(after)
    if first + second == 0:
        return Interval(mean, mean, mean, count)
    freedom = (first + second) ** 2 / (first**2 / (len(before) - 1) + second**2 / (len(after) - 1))
    half = t_quantile(0.5 + confidence / 2, freedom) * math.sqrt(first + second)
    return Interval(mean, mean - half, mean + half, count)


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns p-values that are adjusted for their number, in the same order, by Holm's method."""
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        highest = max(highest, min(1.0, p_values[index] * (len(p_values) - rank)))
        adjusted[index] = highest
    return adjusted


def t_quantile(probability: float, freedom: float) -> float:
    """Returns the quantile of Student's distribution with `freedom` degrees, for a probability between 0 and 1."""
    if probability < 0.5:
        return -t_quantile(1 - probability, freedom)
    low, high = 0.0, 1.0
    while t_cdf(high, freedom) < probability:
        low, high = high, high * 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if t_cdf(middle, freedom) < probability else (low, middle)
    return (low + high) / 2


def t_cdf(value: float, freedom: float) -> float:
    """Returns the part of Student's distribution with `freedom` degrees that is below a value."""
    tail = _beta(freedom / (freedom + value * value), freedom / 2, 0.5) / 2
    return 1 - tail if value > 0 else tail


def _beta(x: float, a: float, b: float) -> float:
    """Returns the regularized incomplete beta function, by its continued fraction."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    fraction, c, d = 1.0, 1.0, 0.0
    for step in range(2 * _HALVINGS):
        half = step // 2
        if step == 0:
            factor = 1.0
        elif step % 2 == 0:
            factor = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        else:
            factor = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        d = 1 / _not_zero(1 + factor * d)
        c = _not_zero(1 + factor / c)
        fraction *= c * d
        if step and abs(1 - c * d) < 1e-15:
            break
    return front * (fraction - 1)


def _not_zero(value: float) -> float:
    return value if abs(value) > 1e-300 else 1e-300


def _normal(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise InvalidArgument(f"the confidence must be between 0 and 1, not {confidence:g}")
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def _quantile(ordered: Sequence[float], part: float) -> float:
    place = part * (len(ordered) - 1)
    index = math.floor(place)
    after = ordered[min(index + 1, len(ordered) - 1)]
    return ordered[index] + (place - index) * (after - ordered[index])
