"""The dice of one seed, and a count of what they did."""

from __future__ import annotations

import random
from collections import Counter


class Dice:
    """Every choice of a seed comes from here; a fault that fires is counted by name."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.fired: Counter[str] = Counter()
        self.calm = False

    def fault(self, name: str, chance: float) -> bool:
        """True with this chance, never once faults have ended."""
        if self.calm or self.random.random() >= chance:
            return False
        self.fired[name] += 1
        return True

    def delay(self, mean: float, name: str = "delay") -> float:
        """Seconds; sometimes many times the mean, so that messages overtake each other."""
        seconds = self.random.random() * 2 * mean
        if self.fault(name, 0.015):
            seconds += self.random.uniform(0.5, 4.0)
        return seconds
