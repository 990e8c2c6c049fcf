"""The slice of its run's budget that an attempt may spend."""

from __future__ import annotations

from collections import deque

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2


class AttemptBudget:
    """Limits the kinds (tokens, cost, calls of models) that the first slice names. Reservations for calls in progress
    count as spent until they are settled."""

    def __init__(self, assigned: agent_pb2.AssignTask) -> None:
        self.limited = assigned.HasField("budget")
        self._granted = _amounts(assigned.budget) if self.limited else (0, 0, 0)
        self._limits = tuple(amount > 0 for amount in self._granted)
        self._reserved: deque[tuple[int, int, int]] = deque()

    def add(self, budget: common_pb2.Budget) -> None:
        """Adds a further slice to the granted amounts: tokens, micro-dollars and model calls."""
        tokens, cost, calls = _amounts(budget)
        self._granted = self._granted[0] + tokens, self._granted[1] + cost, self._granted[2] + calls

    def missing(self, spent: common_pb2.Usage, tokens: int, cost: int, calls: int) -> common_pb2.Budget | None:
        """The grant needed before a call of this size, or None if the slice covers it."""
        used = spent.input_tokens + spent.output_tokens, spent.cost_micro_usd, spent.model_calls
        wanted = (tokens, cost, calls)
        more = [
            max(0, used[kind] + sum(each[kind] for each in self._reserved) + wanted[kind] - self._granted[kind])
            if self._limits[kind]
            else 0
            for kind in range(3)
        ]
        if not any(more):
            return None
        return common_pb2.Budget(max_tokens=more[0], max_cost_micro_usd=more[1], max_model_calls=more[2])

    def reserve(self, tokens: int, cost: int, calls: int) -> None:
        """Reserves the size of a call that is about to be made."""
        if self.limited:
            self._reserved.append((tokens, cost, calls))

    def settle(self) -> None:
        """Releases the oldest reservation: its call was made, and the usage counts instead."""
        if self._reserved:
            self._reserved.popleft()


def _amounts(budget: common_pb2.Budget) -> tuple[int, int, int]:
    return budget.max_tokens, budget.max_cost_micro_usd, budget.max_model_calls


UNLIMITED = AttemptBudget(agent_pb2.AssignTask())
"""The budget of a run without one; never modified."""
