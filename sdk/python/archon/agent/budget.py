"""The slice of its run's budget that an attempt may spend."""

from __future__ import annotations

from collections import deque

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2


class AttemptBudget:
    """Limits the kinds (tokens, cost) that the first slice names. What is reserved for calls in progress counts as
    spent until they are settled."""

    def __init__(self, assigned: agent_pb2.AssignTask) -> None:
        self.limited = assigned.HasField("budget")
        self._tokens = assigned.budget.max_tokens if self.limited else 0
        self._cost = assigned.budget.max_cost_micro_usd if self.limited else 0
        self._limits_tokens, self._limits_cost = self._tokens > 0, self._cost > 0
        self._reserved: deque[tuple[int, int]] = deque()

    def add(self, budget: common_pb2.Budget) -> None:
        """Adds a further slice."""
        self._tokens += budget.max_tokens
        self._cost += budget.max_cost_micro_usd

    def missing(self, spent: common_pb2.Usage, tokens: int, cost: int) -> common_pb2.Budget | None:
        """What must be granted before a call of this size, or None if the slice covers it."""
        used = spent.input_tokens + spent.output_tokens + sum(reserved for reserved, _ in self._reserved)
        paid = spent.cost_micro_usd + sum(reserved for _, reserved in self._reserved)
        more_tokens = used + tokens - self._tokens if self._limits_tokens else 0
        more_cost = paid + cost - self._cost if self._limits_cost else 0
        if more_tokens <= 0 and more_cost <= 0:
            return None
        return common_pb2.Budget(max_tokens=max(0, more_tokens), max_cost_micro_usd=max(0, more_cost))

    def reserve(self, tokens: int, cost: int) -> None:
        """Reserves the size of a call that is about to be made."""
        if self.limited:
            self._reserved.append((tokens, cost))

    def settle(self) -> None:
        """Releases the oldest reservation: its call was made, and what it spent counts instead."""
        if self._reserved:
            self._reserved.popleft()


UNLIMITED = AttemptBudget(agent_pb2.AssignTask())
"""The budget of a run without one; never modified."""
