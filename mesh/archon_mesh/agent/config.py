"""The configuration of an agent, apart from where and for whom it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, TypedDict

from archon.errors import InvalidArgument
from archon.learning import check_variants
from archon_mesh.agent.hooks.middleware import Middleware
from archon_mesh.agent.state.global_storage import GlobalStorage
from archon_mesh.agent.state.goal_check import GoalCheck
from archon_mesh.agent.state.history import Sessions
from archon_mesh.agent.tool_policy import ToolPolicy
from archon_mesh.core.people import InterceptionRule
from archon_mesh.llm.base import CALL_TIMEOUT, IDLE_TIMEOUT, ModelClient
from archon_mesh.llm.create import ModelSpec
from archon_mesh.llm.retry import RETRIES
from archon_mesh.tools.credentials import Ask, Source
from archon_mesh.tools.engine import TIMEOUT
from archon_mesh.tools.source import ToolSource
from archon_mesh.tools.tool import Tool

SUBAGENT_SECONDS: Final = 3600.0
"""Seconds of one call of a sub-agent, with all its waits."""


class AgentFields(TypedDict, total=False):
    """The fields of an AgentConfig, as keyword arguments."""

    name: str
    description: str
    system_prompt: str
    prompt_variants: Mapping[str, str]
    model: ModelClient | ModelSpec | str
    tools: Iterable[Tool | Callable[..., Any]]
    tool_sources: Iterable[ToolSource]
    shared_tools: Iterable[str]
    sub_agents: Mapping[str, Any] | Iterable[Any]
    max_iterations: int
    max_repeats: int
    goal_check: GoalCheck | None
    tool_policy: ToolPolicy | Mapping[str, object] | None
    rules: Iterable[InterceptionRule]
    exit_on_success: Iterable[str]
    middlewares: Iterable[Middleware]
    all_ancestors: bool
    temperature: float | None
    max_tokens: int | None
    timeout: float
    idle_timeout: float
    retries: int
    fallback_model: ModelClient | str | None
    tool_timeout: float
    tool_quota: int | None
    credentials: Source | None
    messages: bool | Sequence[str]
    ask_credential: Ask | None
    max_running_subagents: int
    subagent_timeout: float


class AgentPlace(TypedDict, total=False):
    """Where and for whom an agent runs, as keyword arguments of Agent."""

    session_manager: Sessions | None
    user_id: str
    session_id: str
    global_storage: GlobalStorage | None
    memory_graph: Any
    agent_id: str


class UntypedFields(AgentFields, AgentPlace, total=False):
    """The keyword arguments of an Agent whose answers are texts, or follow from its config."""


@dataclass(slots=True)
class AgentConfig:
    """The fields that an agent is built from. An agent copies them: later changes do not affect it.

    `model` is a client, or a spec for `create_model`, such as `openai/NAME` or `anthropic/NAME`. `tools` are Tools or
    functions; `tool_sources` provide further ones, and are connected when a run starts. `shared_tools` names tools that
    other agents may lease once the agent is served as a role, besides those that are declared as `shared`. `sub_agents`
    are agents, optionally by key. `timeout` limits one model call in all, `idle_timeout` the time without a chunk of
    its reply, `first_token_timeout` the silence before its first token (None: four times `idle_timeout`),
    `tool_timeout` one call of a tool without a timeout of its own, and `subagent_timeout` one call of a sub-agent with
    all its waits, all in seconds. `retries` is how often a model call is made again after an error of the provider that
    may pass, within a minute; then `fallback_model` answers, if there is one. `temperature` and `max_tokens` are the
    model's defaults if None. `tool_quota` limits the calls of all tools per minute. `credentials` are values that tools
    declare by name; `ask_credential` asks a person for a missing one, with the names of the tool and of the credential.

    A tool call with the same arguments and the same result in `max_repeats` iterations in a row is not made again: the
    model is asked for another one, and in the end for its final answer; 0 refuses no call. `goal_check` says whether
    the goal is reached, as GoalCheck describes.

    With `messages` the agent has tools by which it exchanges messages with the other agents of its run: True, or the
    topics whose messages it reads besides those for its task, `broadcast` (the same as True) or `type:TYPE`.

    `prompt_variants` are system prompts by name, among which a mesh that learns chooses one for each run;
    `system_prompt` is the variant `default`. Without such a mesh they do nothing.

    `rules` say before which calls of tools a person is asked; they hold for sub-agents, too.

    `output` is the type of the answer: a pydantic model, a dataclass, a TypedDict, another type such as `list[int]`, or
    a JSON Schema as a mapping; None for text. The model is asked for JSON, and once to correct it.

    With `all_ancestors`, shared memory delivers the answers of all ancestors, not only of the direct predecessors.

    Raises InvalidArgument if the name is empty or a limit is out of range.
    """

    name: str = "agent"
    description: str = ""
    system_prompt: str = ""
    prompt_variants: Mapping[str, str] = field(default_factory=dict)
    model: ModelClient | ModelSpec | str = "offline"
    tools: Iterable[Tool | Callable[..., Any]] = ()
    tool_sources: Iterable[ToolSource] = ()
    shared_tools: Iterable[str] = ()
    sub_agents: Mapping[str, Any] | Iterable[Any] = ()
    max_iterations: int = 15
    max_repeats: int = 3
    goal_check: GoalCheck | None = None
    tool_policy: ToolPolicy | Mapping[str, object] | None = None
    rules: Iterable[InterceptionRule] = ()
    exit_on_success: Iterable[str] = ()
    middlewares: Iterable[Middleware] = ()
    all_ancestors: bool = False
    temperature: float | None = None
    max_tokens: int | None = None
    timeout: float = CALL_TIMEOUT
    idle_timeout: float = IDLE_TIMEOUT
    first_token_timeout: float | None = None
    retries: int = RETRIES
    fallback_model: ModelClient | str | None = None
    tool_timeout: float = TIMEOUT
    tool_quota: int | None = None
    credentials: Source | None = field(default=None, repr=False)
    messages: bool | Sequence[str] = False
    ask_credential: Ask | None = None
    max_running_subagents: int = 8
    subagent_timeout: float = SUBAGENT_SECONDS
    output: object = None

    def __post_init__(self) -> None:
        if not self.name or not isinstance(self.name, str):
            raise InvalidArgument(f"invalid agent name {self.name!r}")
        check_variants(self.prompt_variants, f"agent {self.name}")
        for limit in ("max_iterations", "max_running_subagents"):
            if getattr(self, limit) < 1:
                raise InvalidArgument(f"agent {self.name}: {limit} must be at least 1")
        for limit in ("retries", "max_repeats"):
            if getattr(self, limit) < 0:
                raise InvalidArgument(f"agent {self.name}: {limit} must be at least 0")
        for limit in ("timeout", "idle_timeout", "first_token_timeout", "tool_timeout", "subagent_timeout"):
            if (value := getattr(self, limit)) is not None and value <= 0:
                raise InvalidArgument(f"agent {self.name}: {limit} must be above 0 s")

    @classmethod
    def of(cls, config: AgentConfig | str | None, overrides: Mapping[str, Any]) -> AgentConfig:
        """Returns a config with some fields replaced; a string is the agent's name.

        Raises TypeError if a field does not exist, as a call with an unknown keyword does.
        """
        names = {each.name for each in fields(cls)}
        if unknown := sorted(overrides.keys() - names):
            raise TypeError(f"unknown agent field {', '.join(unknown)}; the fields are {', '.join(sorted(names))}")
        if isinstance(config, str):
            return cls(config, **overrides)
        return cls(**overrides) if config is None else replace(config, **overrides)
