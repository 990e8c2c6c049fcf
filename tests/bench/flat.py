"""Whether a measure that was sampled for a while is flat, or grows and goes on growing. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

HOUR = 3600.0
MOST_WARM_UP = 900.0
WINDOWS = 12

RULE = """flat: the first third of the time (at most 15 minutes) is warm-up and doesn't count. The rest is cut into 12 windows,
of which only the medians are looked at. A measure is not flat where both hold: the last quarter lies above the first
by more than the allowance, and over the last half it still rises by more than the limit per hour (the median of the
slopes between all pairs of windows). So a peak, a sawtooth, or a cache that fills up and stays is flat; a leak isn't."""

Sample = tuple[float, float]
"""Seconds, value."""


@dataclass(frozen=True)
class Limit:
    """`growth` is always allowed, `per_hour` is what may go on for ever."""

    growth: float
    per_hour: float


@dataclass(frozen=True)
class Course:
    """`first` and `last` are the medians of the first and the last quarter after the warm-up; `per_hour` is the slope
    over the last half of that time."""

    first: float
    last: float
    per_hour: float

    def is_flat(self, limit: Limit) -> bool:
        """Returns whether the measure is flat by RULE."""
        return self.last - self.first <= limit.growth or self.per_hour <= limit.per_hour


def course(samples: Sequence[Sample]) -> Course:
    """Returns the course of samples by RULE. Without samples everything is 0."""
    if not samples:
        return Course(0.0, 0.0, 0.0)
    begin, end = samples[0][0], samples[-1][0]
    warm = begin + min(MOST_WARM_UP, (end - begin) / 3)
    windows = _windows([sample for sample in samples if sample[0] >= warm], warm, end)
    quarter = max(1, len(windows) // 4)
    return Course(
        median(value for _, value in windows[:quarter]),
        median(value for _, value in windows[-quarter:]),
        _slope(windows[len(windows) // 2 :]) * HOUR,
    )


def _windows(samples: Sequence[Sample], begin: float, end: float) -> list[Sample]:
    """The median of each window that has samples, at its middle."""
    width = max((end - begin) / WINDOWS, 1e-9)
    found: dict[int, list[float]] = {}
    for at, value in samples:
        found.setdefault(min(WINDOWS - 1, int((at - begin) / width)), []).append(value)
    return [(begin + (number + 0.5) * width, median(values)) for number, values in sorted(found.items())]


def _slope(points: Sequence[Sample]) -> float:
    pairs = [(later, earlier) for number, later in enumerate(points) for earlier in points[:number]]
    return median((b[1] - a[1]) / (b[0] - a[0]) for b, a in pairs) if pairs else 0.0
