"""What was set aside for an attempt of its run's budget."""

from __future__ import annotations

from collections import deque

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2


class Granted:
    """In the kinds that are limited: those that the first slice names. What was promised to calls that are under way
    is kept free for them."""

    def __init__(self, assigned: agent_pb2.AssignTask) -> None:
        self.limited = assigned.HasField("budget")
        self._tokens = assigned.budget.max_tokens if self.limited else 0
        self._cost = assigned.budget.max_cost_micro_usd if self.limited else 0
        self._limits_tokens, self._limits_cost = self._tokens > 0, self._cost > 0
        self._promised: deque[tuple[int, int]] = deque()

    def add(self, budget: common_pb2.Budget) -> None:
        """More was granted."""
        self._tokens += budget.max_tokens
        self._cost += budget.max_cost_micro_usd

    def lacks(self, spent: common_pb2.Usage, tokens: int, cost: int) -> common_pb2.Budget | None:
        """What is missing for a call of so much; None: nothing."""
        used = spent.input_tokens + spent.output_tokens + sum(one for one, _ in self._promised)
        paid = spent.cost_micro_usd + sum(one for _, one in self._promised)
        more_tokens = used + tokens - self._tokens if self._limits_tokens else 0
        more_cost = paid + cost - self._cost if self._limits_cost else 0
        if more_tokens <= 0 and more_cost <= 0:
            return None
        return common_pb2.Budget(max_tokens=max(0, more_tokens), max_cost_micro_usd=max(0, more_cost))

    def promise(self, tokens: int, cost: int) -> None:
        """A call of so much is about to be made."""
        if self.limited:
            self._promised.append((tokens, cost))

    def settle(self) -> None:
        """A call was made: what it spent counts, no more what it was promised."""
        if self._promised:
            self._promised.popleft()


UNLIMITED = Granted(agent_pb2.AssignTask())
"""Of a run without a budget; nothing changes it."""
