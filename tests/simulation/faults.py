"""The random choices of one seed, and a count of its faults."""

from __future__ import annotations

import random
from collections import Counter


class Dice:
    """Makes every random choice of a seed, and counts the faults that fire by name."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.fired: Counter[str] = Counter()
        self.calm = False

    def fault(self, name: str, chance: float) -> bool:
        """Returns True with this probability, and counts the fault. Always returns False after faults have ended."""
        if self.calm or self.random.random() >= chance:
            return False
        self.fired[name] += 1
        return True

    def delay(self, mean: float, name: str = "delay") -> float:
        """Returns a random delay in seconds, at times many times the mean, so that messages overtake each other."""
        seconds = self.random.random() * 2 * mean
        if self.fault(name, 0.015):
            seconds += self.random.uniform(0.5, 4.0)
        return seconds
