"""Workers for tests of plans, whose tools are real and whose model is a function."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from archon_mesh.engine.plan import Task
from archon_mesh.llm import ScriptedModel
from archon_mesh.planning import PlanExecutor, Planner, Spending, parse_plan
from archon_mesh.tools import ToolExecutionEngine, ToolRegistry
from archon_mesh.tools.result import ToolOutcome, ToolResult
from tests.fixtures.plan_replies import reply


class FunctionWorker:
    """Executes tools with a real engine; `think` and `roles` are functions of the message."""

    def __init__(
        self,
        tools: Sequence[Any] = (),
        *,
        think: Callable[[str], Any] = lambda message: "thought",
        roles: Mapping[str, Callable[[str], Any]] | None = None,
    ) -> None:
        self._registry = ToolRegistry(tools)
        self._engine = ToolExecutionEngine(self._registry)
        self._think = think
        self._roles = dict(roles or {})
        self.messages: list[str] = []
        """What `think` and the roles were asked."""

        self.loops: list[tuple[str, ...]] = []
        """The tools of each call of `think`."""

        self.outputs: list[Mapping[str, Any] | None] = []
        """What the answer of each call of `think` has to be."""

    @property
    def tools(self) -> ToolRegistry:
        return self._registry

    @property
    def roles(self) -> Mapping[str, str]:
        return dict.fromkeys(self._roles, "")

    async def call_tool(self, name: str, arguments: Mapping[str, Any], number: int, spending: Spending) -> ToolOutcome:
        return await self._engine.run(name, arguments)

    async def ask_role(self, role: str, message: str, number: int, spending: Spending) -> ToolOutcome:
        self.messages.append(message)
        return ToolOutcome(ToolResult.success(await _awaited(self._roles[role](message))))

    async def think(
        self,
        message: str,
        tools: Collection[str],
        number: int,
        spending: Spending,
        *,
        output: Mapping[str, Any] | None = None,
    ) -> str:
        self.outputs.append(output)
        self.messages.append(message)
        self.loops.append(tuple(tools))
        spending.model_calls += 1
        spending.cost_micro_usd += 7
        answer: str = await _awaited(self._think(message))
        return answer


async def _awaited(value: Any) -> Any:
    return await value if hasattr(value, "__await__") else value


async def no_sleep(seconds: float) -> None:
    """Sleeps for no time at all."""


def plan(*subtasks: Any, query: str = "Do it") -> Task:
    """Returns the plan of a reply."""
    return parse_plan(reply(*subtasks), query, "task-1")


def planner_of(*replies: Any, **options: Any) -> tuple[Planner, ScriptedModel]:
    """Returns a planner with a scripted model."""
    model = ScriptedModel(replies)
    return Planner(model, new_id=lambda: "task-1", **options), model


def executor_of(worker: FunctionWorker, *replies: str, **options: Any) -> PlanExecutor:
    """Returns an executor whose planner replies these texts to replans, if there are any."""
    planner = planner_of(*replies, roles=worker.roles)[0] if replies else None
    return PlanExecutor(worker, planner=planner, sleep=no_sleep, **options)
