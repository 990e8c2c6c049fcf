"""The agent as its run, its hooks and its tools see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

from archon_mesh.agent.state.global_storage import GlobalStorage
from archon_mesh.agent.state.goal_check import GoalCheck
from archon_mesh.agent.state.history import HistoryList, Sessions
from archon_mesh.agent.tool_policy import ToolPolicy
from archon_mesh.core.people import InterceptionRule
from archon_mesh.llm.base import ModelClient
from archon_mesh.tools.engine import ToolExecutionEngine
from archon_mesh.tools.registry import ToolRegistry
from archon_mesh.tools.tool import Tool


class Phase(StrEnum):
    """An agent's phase; THINKING, ACTING and OBSERVING are the steps of its loop."""

    IDLE = "idle"
    PLANNING = "planning"
    EXECUTING = "executing"
    REPLANNING = "replanning"
    FINISHED = "finished"
    ERROR = "error"
    THINKING = "thinking"
    ACTING = "acting"
    OBSERVING = "observing"


class RunningAgent(Protocol):
    """The part of an agent that hooks, tools and the loop may use; `Agent` implements it."""

    name: str
    identity: object
    """The same object for an agent and its forks."""

    description: str
    agent_id: str
    user_id: str
    session_id: str
    system_prompt: str
    tools_last: tuple[str, ...]
    """Tools that are offered after the others, in this order."""

    temperature: float | None
    max_tokens: int | None
    model_timeout: float
    idle_timeout: float
    first_token_timeout: float | None
    retries: int
    max_iterations: int
    max_repeats: int
    goal_check: GoalCheck | None
    policy: ToolPolicy
    rules: tuple[InterceptionRule, ...]
    exit_on_success: frozenset[str]
    tools: ToolRegistry
    engine: ToolExecutionEngine
    history: HistoryList
    session_manager: Sessions | None
    global_storage: GlobalStorage | None

    @property
    def model(self) -> ModelClient:
        """The model client, created on first use."""
        ...

    @property
    def fallback_model(self) -> ModelClient | None:
        """The client of the model that answers if `model` keeps failing; None if there is none."""
        ...

    async def connect_tools(self) -> None:
        """Connects the sources of tools and registers their tools."""
        ...

    @property
    def sub_agents(self) -> Mapping[str, Tool]:
        """The sub-agents as tools, by key."""
        ...

    @property
    def registered(self) -> Sequence[object]:
        """The middlewares and handlers, in order of registration."""
        ...

    @property
    def phase(self) -> Phase:
        """The agent's current phase."""
        ...

    @property
    def paused(self) -> bool:
        """Whether the agent waits before its next step."""
        ...

    def pause(self) -> None:
        """Makes the agent and its sub-agents wait before their next step."""
        ...

    def resume(self) -> None:
        """Lets the agent and its sub-agents go on after `pause`. Idempotent."""
        ...

    async def wait_until_resumed(self) -> None:
        """Returns when the agent is not paused."""
        ...

    def register_agent(
        self, agent: Any, *, name: str = "", description: str = "", stateless: bool | None = None
    ) -> RunningAgent:
        """Registers a sub-agent as a tool of this agent."""
        ...
