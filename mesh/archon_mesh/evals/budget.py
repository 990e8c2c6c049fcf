"""The budget of an eval: its trials in progress share what is left, so that together they cannot spend more."""

from __future__ import annotations

import math

from archon.errors import InvalidArgument

MIN_SHARE = 1e-6
"""US dollars of the smallest share: a millionth, since a limit of 0 would be none."""


class Budget:
    """US dollars that an eval may spend; without a limit if None. Raises InvalidArgument if the limit is not above 0."""

    def __init__(self, limit: float | None) -> None:
        if limit is not None and not (MIN_SHARE <= limit < math.inf):
            raise InvalidArgument(f"the budget must be at least {MIN_SHARE:g} US dollars, not {limit:g}")
        self._limit = limit
        self._reserved = 0.0
        self._running = 0
        self.spent = 0.0

    def reserve(self, slots: int) -> float | None:
        """Returns the share of a trial: what is neither spent nor reserved, divided by the slots without a trial. None
        without a limit, 0 if there is nothing left."""
        if self._limit is None:
            return None
        left = self._limit - self.spent - self._reserved
        share = left / max(1, slots - self._running)
        if share < MIN_SHARE:
            return 0.0
        self._reserved += share
        self._running += 1
        return share

    def settle(self, share: float | None, spent: float) -> None:
        """Counts the cost of a trial, and releases the rest of its share."""
        self.spent += spent
        if share is not None:
            self._reserved -= share
            self._running -= 1
