"""The budget of an eval: its trials in progress share the rest of it, so that together they cannot spend more."""

from __future__ import annotations

import asyncio
import math
from typing import Final

from archon.errors import InvalidArgument

MIN_SHARE: Final = 1e-6
"""US dollars of the smallest share: a millionth, since a limit of 0 would be none."""


class Budget:
    """US dollars that an eval may spend; without a limit if None. Raises InvalidArgument if the limit is not above 0.

    A trial begins only if the rest of the budget covers the most that a trial has cost so far. Agents count a call
    after they have made it: a trial that costs more than each before it may exceed the limit by its last call.
    """

    def __init__(self, limit: float | None) -> None:
        if limit is not None and not (MIN_SHARE <= limit < math.inf):
            raise InvalidArgument(f"the budget must be at least {MIN_SHARE:g} US dollars, not {limit:g}")
        self._limit = limit
        self._reserved = 0.0
        self._running = 0
        self._highest = MIN_SHARE
        self._settled = asyncio.Event()
        self.spent = 0.0

    async def reserve(self, slots: int) -> float | None:
        """Returns the share of a trial: the budget that is neither spent nor reserved, divided by the slots without a
        trial, or the highest cost so far if that is more. Waits for trials in progress if they hold too much. None
        without a limit, 0 if too little is left."""
        while self._limit is not None:
            left = self._limit - self.spent - self._reserved
            share = min(left, max(self._highest, left / max(1, slots - self._running)))
            if share >= self._highest:
                self._reserved += share
                self._running += 1
                return share
            if not self._running:
                return 0.0
            self._settled.clear()
            await self._settled.wait()
        return None

    def settle(self, share: float | None, spent: float) -> None:
        """Counts the cost of a trial, and releases the rest of its share."""
        self.spent += spent
        self._highest = max(self._highest, spent)
        if share is not None:
            self._reserved -= share
            self._running -= 1
        self._settled.set()
