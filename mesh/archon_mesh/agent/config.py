"""What an agent is made of, apart from where and for whom it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypedDict

from archon.errors import InvalidArgument
from archon_mesh.agent.hooks.middleware import Middleware
from archon_mesh.agent.loop.tool_policy import ToolPolicy
from archon_mesh.llm.base import ModelClient
from archon_mesh.tools.tool import Tool


class AgentFields(TypedDict, total=False):
    """The fields of an AgentConfig, as keyword arguments."""

    name: str
    description: str
    system_prompt: str
    model: ModelClient | str
    tools: Iterable[Tool | Callable[..., Any]]
    sub_agents: Mapping[str, Any] | Iterable[Any]
    max_iterations: int
    tool_policy: ToolPolicy | Mapping[str, object] | None
    exit_on_success: Iterable[str]
    middlewares: Iterable[Middleware]
    all_ancestors: bool
    temperature: float | None
    max_tokens: int | None
    timeout: float
    tool_timeout: float
    max_running_subagents: int


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """`model` is a client, or what `create_model` takes (`offline`, `openai/NAME`); `tools` are Tools or functions;
    `sub_agents` agents by key. `timeout` bounds one call of the model, `tool_timeout` one of a tool that has no timeout
    of its own, in seconds; `temperature` and `max_tokens` are the model's own where None. `all_ancestors`: shared
    memory brings the answers of all ancestors, not of the direct ones only.

    Raises InvalidArgument for a name that is empty and a limit below 1.
    """

    name: str = "agent"
    description: str = ""
    system_prompt: str = ""
    model: ModelClient | str = "offline"
    tools: Iterable[Tool | Callable[..., Any]] = ()
    sub_agents: Mapping[str, Any] | Iterable[Any] = ()
    max_iterations: int = 15
    tool_policy: ToolPolicy | Mapping[str, object] | None = None
    exit_on_success: Iterable[str] = ()
    middlewares: Iterable[Middleware] = ()
    all_ancestors: bool = False
    temperature: float | None = None
    max_tokens: int | None = None
    timeout: float = 120.0
    tool_timeout: float = 60.0
    max_running_subagents: int = 8

    def __post_init__(self) -> None:
        if not self.name or not isinstance(self.name, str):
            raise InvalidArgument(f"an agent needs a name, {self.name!r} is none")
        for limit in ("max_iterations", "max_running_subagents"):
            if getattr(self, limit) < 1:
                raise InvalidArgument(f"agent {self.name}: {limit} must be at least 1")
        for bound in ("timeout", "tool_timeout"):
            if getattr(self, bound) <= 0:
                raise InvalidArgument(f"agent {self.name}: {bound} must be above 0 s")

    @classmethod
    def of(cls, config: AgentConfig | str | None, given: Mapping[str, Any]) -> AgentConfig:
        """A config, or a name, with these fields in place of its own. Raises TypeError for a field that isn't one, as a
        call with an unknown keyword does."""
        known = {one.name for one in fields(cls)}
        if unknown := sorted(given.keys() - known):
            raise TypeError(f"an agent has no {', '.join(unknown)}; its fields are {', '.join(sorted(known))}")
        if isinstance(config, str):
            return cls(config, **given)
        return cls(**given) if config is None else replace(config, **given)
