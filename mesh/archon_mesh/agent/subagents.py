"""Agents as tools of another agent, by key. Stateless ones run on a copy, stateful ones take one call at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, Protocol, TypeVar, runtime_checkable

from typing_extensions import override

from archon.errors import AlreadyExists, DeadlineExceeded, InvalidArgument
from archon_mesh.agent.errors import NotAnAgent, SubAgentNotFoundError
from archon_mesh.agent.state.agent_state import AgentState, get_context
from archon_mesh.agent.state.call_slots import CallSlots
from archon_mesh.agent.state.global_storage import GlobalStorage
from archon_mesh.agent.state.running_agent import RunningAgent
from archon_mesh.tools.person_time import work_time
from archon_mesh.tools.tool import Tool

_log = logging.getLogger(__name__)

MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
"""Bytes of the answer of a sub-agent, as of an answer of a role."""

PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "task": {
            "type": "string",
            "pattern": r"\S",
            "description": "what the agent is to do, with all that it must know",
        }
    },
    "required": ["task"],
    "additionalProperties": False,
}


@runtime_checkable
class SubAgent(Protocol):
    """A type that can be registered as a sub-agent: an agent of this process, or a remote agent."""

    name: str
    description: str

    async def call(self, message: str, caller: AgentState, *, stateless: bool) -> str:
        """Returns the answer. An error becomes the result of the caller's tool call."""
        ...

    async def close(self) -> None: ...


class SubAgentMetadata:
    """Class attributes that say how the instances of an agent class appear as sub-agents."""

    subagent_name: ClassVar[str] = ""
    subagent_description: ClassVar[str] = ""
    subagent_stateless: ClassVar[bool] = False
    subagent_exposed: ClassVar[bool] = False
    """Whether `@subagent` or a factory has set these attributes."""


C = TypeVar("C", bound=type[SubAgentMetadata])


def subagent(name: str = "", description: str = "", stateless: bool = False) -> Callable[[C], C]:
    """Decorates an agent class: sets how its instances appear as sub-agents."""

    def decorate(cls: C) -> C:
        cls.subagent_name, cls.subagent_description, cls.subagent_stateless = name, description, stateless
        cls.subagent_exposed = True
        return cls

    return decorate


class SubAgentTool(Tool):
    """A sub-agent as a tool of its caller."""

    parameters_schema = PARAMETERS
    wants_state = True
    timeout = float("inf")
    max_output_bytes = MAX_ANSWER_BYTES

    def __init__(
        self,
        key: str,
        description: str,
        agent: SubAgent,
        *,
        stateless: bool,
        running: CallSlots,
        seconds: float | None,
    ) -> None:
        self.name = key
        self.description = description or f"The agent {key}."
        self.agent = agent
        self.stateless = stateless
        self._running = running
        self._seconds = seconds

    @override
    async def execute(self, **kwargs: Any) -> str:
        return await self.call(kwargs["task"], kwargs["agent_state"])

    async def call(self, message: str, caller: AgentState) -> str:
        """Returns the sub-agent's answer. Raises DeadlineExceeded, and the sub-agent's errors."""
        try:
            async with work_time(self._seconds) as limit, self._running.taken():
                return await self.agent.call(message, caller, stateless=self.stateless)
        except TimeoutError:
            if not limit.expired():
                raise
            raise DeadlineExceeded(f"the sub-agent {self.name} gave no answer within {self._seconds} s") from None


class SubAgents:
    """The sub-agents of one agent; at most `max_running` run concurrently, each call for `seconds` at most."""

    def __init__(self, owner: RunningAgent, max_running: int, seconds: float) -> None:
        if max_running < 1:
            raise InvalidArgument("max_running must be at least 1")
        self._owner = owner
        self._running = CallSlots(f"each of the {max_running} places for sub-agents of {owner.name}", max_running)
        self._seconds = seconds
        self.by_key: dict[str, SubAgentTool] = {}
        self._missing: set[str] = set()

    def register(self, agent: Any, name: str = "", description: str = "", stateless: bool | None = None) -> None:
        """Registers an agent as a tool. `name` is its key and the tool's name.

        Arguments that are not set default to the metadata of the agent's class. Raises NotAnAgent, AlreadyExists if the
        key is taken, and InvalidArgument if the agent is the owner itself.
        """
        if getattr(agent, "identity", None) is self._owner.identity:
            raise InvalidArgument(f"{agent.name} cannot be a sub-agent of itself")
        if not isinstance(agent, SubAgent):
            raise NotAnAgent(f"not an agent: {agent!r}")
        key = name or agent.name
        if isinstance(agent, SubAgentMetadata):
            key = name or agent.subagent_name or agent.name
            description = description or agent.subagent_description
            stateless = agent.subagent_stateless if stateless is None else stateless
        if key in self.by_key:
            raise AlreadyExists(f"{self._owner.name} already has a sub-agent {key!r}")
        tool = SubAgentTool(
            key,
            description or agent.description,
            agent,
            stateless=bool(stateless),
            running=self._running,
            seconds=None if getattr(agent, "has_own_timeout", False) else self._seconds,
        )
        self._owner.tools.register_tool(tool)
        self.by_key[key] = tool

    def copy(self, owner: RunningAgent) -> SubAgents:
        """Returns the same sub-agents for a fork of their owner; both share the limit of concurrent calls."""
        fork = SubAgents(owner, 1, self._seconds)
        fork._running, fork.by_key, fork._missing = self._running, dict(self.by_key), self._missing
        return fork

    def node_ids(self) -> dict[str, str]:
        """Returns the ids of the sub-agents in the shared memory graph, by key; a remote agent's id is its role."""
        return {key: str(getattr(tool.agent, "agent_id", tool.agent.name)) for key, tool in self.by_key.items()}

    def warn_of_missing_node(self, key: str) -> None:
        """Logs, once, that a sub-agent is not in the shared memory graph."""
        if key not in self._missing:
            self._missing.add(key)
            _log.warning("sub-agent %s is not in the shared memory graph of %s", key, self._owner.name)

    async def close(self) -> None:
        """Closes the agents of all tools, remote ones too, in the order they were added. Raises the first error of a
        `close`; the agents after it stay open."""
        for tool in self.by_key.values():
            await tool.agent.close()


async def call_sub_agent(
    agent_name: str,
    message: str,
    agent_state: AgentState | None = None,
    global_storage: GlobalStorage | None = None,
) -> str:
    """Calls a sub-agent from a tool or a hook and returns its answer.

    `agent_state` is the state of the calling agent, by default the current one. Values of `global_storage` are copied
    into the run's storage. Raises SubAgentNotFoundError, and the sub-agent's errors.
    """
    state = agent_state or get_context()
    tool = state.agent.sub_agents.get(agent_name)
    if not isinstance(tool, SubAgentTool):
        raise SubAgentNotFoundError(agent_name, state.agent.sub_agents)
    if global_storage is not None and global_storage is not state.global_storage:
        state.global_storage.update(global_storage.to_dict())
    return await tool.call(message, state)
