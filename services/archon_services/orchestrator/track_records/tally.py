"""Sums about the work of an instance or a role, in which older work counts less: half as much after each half-life.

All sums are linear, so that the sums of several replicas are merged by adding them, and something that was added can
be taken back.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Final

HOUR: Final = 3_600.0

TASKS_HALF_LIFE: Final = 24 * HOUR
"""Seconds after which the end, the time and the cost of a task count half."""

OPINIONS_HALF_LIFE: Final = 7 * 24 * HOUR
"""Seconds after which a rating, a bid and a decided conflict count half: there are fewer of them."""

MIN_MEASURED: Final = 20
"""Completed attempts from which on the time that 95 % of them kept is known."""

BUCKETS_PER_OCTAVE: Final = 4
"""Buckets of times between one time and its double: a bucket ends 19 % above its begin."""

SHORTEST: Final = 0.001
"""Seconds at which the first bucket ends."""

MAX_BUCKET: Final = 128
"""Number of the last bucket, which holds all times above 49 days."""

_DUST: Final = 1e-6
"""Weight below which a bucket is empty."""

_TASKS: Final = ("completed", "failed", "seconds", "cost")
_OPINIONS: Final = ("bids", "bids_kept", "conflicts", "conflicts_won", "ratings", "stars")


@dataclass(slots=True)
class Tally:
    """The sums as of `time`, in wall seconds. `seconds` and `cost` (in millionths of a US dollar) are of the completed
    attempts, whose times are counted in `times` by bucket."""

    time: float = 0.0
    completed: float = 0.0
    failed: float = 0.0
    seconds: float = 0.0
    cost: float = 0.0
    bids: float = 0.0
    bids_kept: float = 0.0
    conflicts: float = 0.0
    conflicts_won: float = 0.0
    ratings: float = 0.0
    stars: float = 0.0
    times: dict[int, float] = field(default_factory=dict)

    @property
    def tasks(self) -> float:
        """Weight of the attempts that completed or failed."""
        return max(0.0, self.completed) + max(0.0, self.failed)

    @property
    def success_rate(self) -> float:
        """Part of the attempts that completed, 0 without an attempt."""
        return _part(self.completed, self.completed + self.failed)

    @property
    def mean_seconds(self) -> float:
        """Mean seconds of a completed attempt, 0 without one."""
        return max(0.0, self.seconds / self.completed) if self.completed > _DUST else 0.0

    @property
    def mean_cost(self) -> float:
        """Mean cost of a completed attempt in millionths of a US dollar, 0 without one."""
        return max(0.0, self.cost / self.completed) if self.completed > _DUST else 0.0

    @property
    def bids_kept_rate(self) -> float:
        """Part of the bids that were kept."""
        return _part(self.bids_kept, self.bids)

    @property
    def conflicts_won_rate(self) -> float:
        """Part of the conflicts that were won."""
        return _part(self.conflicts_won, self.conflicts)

    @property
    def mean_stars(self) -> float:
        """Mean stars, from 1 to 5; 0 without a rating."""
        return min(5.0, max(1.0, self.stars / self.ratings)) if self.ratings > _DUST else 0.0

    @property
    def p95_seconds(self) -> float:
        """Seconds within which 95 % of the completed attempts ended; 0 if fewer than MIN_MEASURED are measured. The
        weight of 20 attempts of the last hours is a little below 20: half an attempt may be missing."""
        return self.quantile(0.95) if self.completed >= MIN_MEASURED - 0.5 else 0.0

    def quantile(self, part: float) -> float:
        """Returns the end of the bucket, in seconds, up to which so large a part of the completed attempts ended; 0
        without one."""
        total = sum(self.times.values())
        below = 0.0
        for bucket in sorted(self.times):
            below += self.times[bucket]
            if below >= part * total - _DUST:
                return bucket_end(bucket)
        return 0.0

    def age(self, time: float) -> None:
        """Brings the sums to a later time, in wall seconds. Does nothing if it is earlier: a clock was set back."""
        if time <= self.time:
            return
        elapsed, self.time = time - self.time, time
        if elapsed == time:  # nothing was added yet
            return
        tasks, opinions = 0.5 ** (elapsed / TASKS_HALF_LIFE), 0.5 ** (elapsed / OPINIONS_HALF_LIFE)
        for name in _TASKS:
            setattr(self, name, getattr(self, name) * tasks)
        for name in _OPINIONS:
            setattr(self, name, getattr(self, name) * opinions)
        if self.times:
            self.times = {key: aged for key, held in self.times.items() if (aged := held * tasks) > _DUST}

    def add(self, other: Tally, sign: int = 1) -> None:
        """Adds the sums of another tally, each as of the later of both times; subtracts them with `sign` -1."""
        if other.time > self.time:
            self.age(other.time)
        elapsed = self.time - other.time
        tasks = sign * 0.5 ** (elapsed / TASKS_HALF_LIFE)
        opinions = sign * 0.5 ** (elapsed / OPINIONS_HALF_LIFE)
        for name in _TASKS:
            if amount := getattr(other, name):
                setattr(self, name, getattr(self, name) + tasks * amount)
        for name in _OPINIONS:
            if amount := getattr(other, name):
                setattr(self, name, getattr(self, name) + opinions * amount)
        for bucket, held in other.times.items():
            self.times[bucket] = self.times.get(bucket, 0.0) + tasks * held

    def encode(self) -> bytes:
        """Returns the bytes that `decode` reads."""
        sums = {name: getattr(self, name) for name in (*_TASKS, *_OPINIONS) if getattr(self, name)}
        times = [[bucket, self.times[bucket]] for bucket in sorted(self.times)]
        return json.dumps({"time": self.time, **sums, "times": times}, separators=(",", ":")).encode()


def decode(data: bytes) -> Tally:
    """Returns a stored tally. Sums that this version does not know are left out, so that replicas of several versions
    share a database. Raises ValueError or TypeError if the bytes are no tally."""
    stored = json.loads(data)
    if not isinstance(stored, dict):
        raise TypeError("a stored tally is an object")
    names = ("time", *_TASKS, *_OPINIONS)
    sums = {name: float(stored[name]) for name in names if name in stored}
    times = {int(bucket): float(held) for bucket, held in stored.get("times", [])}
    if not all(map(math.isfinite, (*sums.values(), *times.values()))):
        raise ValueError("a stored tally has numbers only")
    return Tally(**sums, times=times)


def merged(tallies: list[bytes]) -> bytes:
    """Returns the sum of stored tallies. Leaves out those that cannot be read."""
    total = Tally()
    for data in tallies:
        try:
            total.add(decode(data))
        except (ValueError, TypeError):
            continue
    return total.encode()


def bucket_of(seconds: float) -> int:
    """Returns the number of the bucket of a time."""
    if seconds <= SHORTEST:
        return 0
    return min(MAX_BUCKET, math.ceil(BUCKETS_PER_OCTAVE * math.log2(seconds / SHORTEST) - 1e-9))


def bucket_end(bucket: int) -> float:
    """Returns the longest time of a bucket in seconds, in whole microseconds."""
    return float(round(SHORTEST * 2.0 ** (bucket / BUCKETS_PER_OCTAVE), 6))


def _part(amount: float, total: float) -> float:
    return min(1.0, max(0.0, amount / total)) if total > _DUST else 0.0
