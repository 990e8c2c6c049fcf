"""The interface between a plan and its workers: tools, a model, and other agents."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from archon_mesh.tools.registry import ToolRegistry
from archon_mesh.tools.result import ToolOutcome


@dataclass(slots=True)
class Spending:
    """The spending of a subtask so far: model calls, and their cost in millionths of a US dollar. Calls of roles in
    other processes are not counted."""

    model_calls: int = 0
    cost_micro_usd: int = 0


class Worker(Protocol):
    """Executes parts of a plan. `archon_mesh.agent.plan_worker` has the one of an agent."""

    @property
    def tools(self) -> ToolRegistry:
        """The tools that subtasks may use."""
        ...

    @property
    def roles(self) -> Mapping[str, str]:
        """The agents that subtasks may go to: their descriptions by name."""
        ...

    async def call_tool(self, name: str, arguments: Mapping[str, Any], number: int, spending: Spending) -> ToolOutcome:
        """Calls a tool directly. `number` is the position of the subtask, the same whenever the plan is executed."""
        ...

    async def ask_role(self, role: str, message: str, number: int, spending: Spending) -> ToolOutcome:
        """Returns the answer of another agent."""
        ...

    async def think(
        self,
        message: str,
        tools: Collection[str],
        number: int,
        spending: Spending,
        *,
        output: Mapping[str, Any] | None = None,
    ) -> str:
        """Returns the answer of a model that may use these tools only; with the JSON Schema `output` it is JSON that
        matches it. Raises the model's errors."""
        ...
