"""The budget of a plan in this process."""

from __future__ import annotations

import math
from dataclasses import dataclass

from archon.errors import InvalidArgument
from archon_mesh.engine.types import NO_LIMIT, Budget

UNLIMITED = 1e9
"""Seconds of a run in a process, which has no deadline of its own; as a count, more than any plan has."""


@dataclass(frozen=True, slots=True)
class PlanBudget:
    """The limits of a whole plan, its planner and its answer included; None means no limit.

    `max_tokens` counts input and output; `max_cost` is in US dollars; `max_seconds` does not count the time in which
    the plan is paused or waits for a person. The run engine reserves the budget before it is spent: a model call that
    the rest does not cover is not made. Raises InvalidArgument if a limit is out of range.
    """

    max_tokens: int | None = None
    max_model_calls: int | None = None
    max_cost: float | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_tokens", "max_model_calls"):
            limit = getattr(self, name)
            if limit is not None and limit < 1:
                raise InvalidArgument(f"invalid budget: {name} is {limit}, and must be at least 1")
        if self.max_cost is not None and not 1e-6 <= self.max_cost < math.inf:
            raise InvalidArgument(f"invalid budget: max_cost is {self.max_cost}, and must be at least $0.000001")
        if self.max_seconds is not None and not 0 < self.max_seconds <= UNLIMITED:
            raise InvalidArgument(f"invalid budget: max_seconds is {self.max_seconds}, and must be above 0")

    @property
    def limits(self) -> Budget:
        """The budget as the run engine counts it: cost in millionths of a US dollar."""
        cost = 0 if self.max_cost is None else round(self.max_cost * 1_000_000)
        budget = Budget(self.max_tokens or 0, cost, 0, self.max_model_calls or 0)
        return budget if budget.limited else NO_LIMIT

    @property
    def seconds(self) -> float:
        """The time of the run, in seconds."""
        return UNLIMITED if self.max_seconds is None else self.max_seconds
