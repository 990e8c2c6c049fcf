"""Agents as tools of another: looked up by key, stateless ones on a copy, stateful ones one call at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from archon.errors import AlreadyExists, InvalidArgument
from archon_mesh.agent.errors import NotAnAgent, SubAgentNotFoundError
from archon_mesh.agent.state.agent_state import AgentState, get_context
from archon_mesh.agent.state.global_storage import GlobalStorage
from archon_mesh.tools.tool import Tool

if TYPE_CHECKING:
    from archon_mesh.agent.agent import Agent

A = TypeVar("A", bound="type[Agent]")

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
class Callee(Protocol):
    """What can be a sub-agent: an agent here, or a role somewhere in the mesh."""

    name: str
    description: str

    async def call(self, message: str, caller: AgentState, *, stateless: bool) -> str:
        """Its answer. What it raises the caller's model is told."""
        ...

    async def close(self) -> None: ...


def subagent(name: str = "", description: str = "", stateless: bool = False) -> Callable[[A], A]:
    """Says of a class of agents how its instances are seen as sub-agents."""

    def decorate(cls: A) -> A:
        cls.subagent_name, cls.subagent_description, cls.subagent_stateless = name, description, stateless
        cls.subagent_exposed = True
        return cls

    return decorate


class LocalCallee:
    """An agent of this process."""

    def __init__(self, agent: Agent, name: str, description: str) -> None:
        self.agent = agent
        self.name = name
        self.description = description

    async def call(self, message: str, caller: AgentState, *, stateless: bool) -> str:
        """See Callee. A stateless one runs on a copy with a forked history, which is thrown away."""
        if not stateless:
            return await self.agent.run_async(message)
        return await self.agent.forked().run_async(message)

    async def close(self) -> None:
        """See Callee."""
        await self.agent.close()


class SubAgentTool(Tool):
    """One sub-agent, as its caller's model sees it."""

    parameters_schema = PARAMETERS
    wants_state = True
    timeout = float("inf")

    def __init__(self, key: str, callee: Callee, stateless: bool, room: asyncio.Semaphore) -> None:
        self.name = key
        self.description = callee.description or f"The agent {callee.name}."
        self.callee = callee
        self.stateless = stateless
        self._room = room

    async def execute(self, **kwargs: Any) -> str:
        """Its answer."""
        return await self.call(kwargs["task"], kwargs["agent_state"])

    async def call(self, message: str, caller: AgentState) -> str:
        """As `execute`."""
        async with self._room:
            return await self.callee.call(message, caller, stateless=self.stateless)


class SubAgents:
    """Those of one agent; at most `max_running` run at once."""

    def __init__(self, owner: Agent, max_running: int) -> None:
        if max_running < 1:
            raise InvalidArgument("at least one sub-agent must be allowed to run")
        self._owner = owner
        self._room = asyncio.Semaphore(max_running)
        self.by_key: dict[str, SubAgentTool] = {}

    def register(self, agent: Any, name: str = "", description: str = "", stateless: bool | None = None) -> None:
        """`name` is the key, and the tool's name; where it or the others aren't given, the class's own count. Raises
        NotAnAgent, AlreadyExists, InvalidArgument for an agent that would be its own."""
        from archon_mesh.agent.agent import Agent

        if agent is self._owner:
            raise InvalidArgument(f"{agent.name} can't be a sub-agent of itself")
        if isinstance(agent, Agent):
            key = name or agent.subagent_name or agent.name
            callee: Callee = LocalCallee(agent, key, description or agent.subagent_description or agent.description)
            stateless = agent.subagent_stateless if stateless is None else stateless
        elif isinstance(agent, Callee):
            key, callee = name or agent.name, agent
        else:
            raise NotAnAgent(f"{agent!r} is no agent")
        if key in self.by_key:
            raise AlreadyExists(f"{self._owner.name} has a sub-agent {key!r} already")
        tool = SubAgentTool(key, callee, bool(stateless), self._room)
        self._owner.tools.register_tool(tool)
        self.by_key[key] = tool

    def copy(self, owner: Agent) -> SubAgents:
        """The same ones, for a fork of their owner; how many may run at once is counted together."""
        twin = SubAgents(owner, 1)
        twin._room, twin.by_key = self._room, dict(self.by_key)
        return twin

    def get(self, key: str) -> SubAgentTool:
        """Raises SubAgentNotFoundError, which lists the keys."""
        if key not in self.by_key:
            raise SubAgentNotFoundError(key, self.by_key)
        return self.by_key[key]

    async def close(self) -> None:
        """All of them."""
        for one in self.by_key.values():
            await one.callee.close()


async def call_sub_agent(
    agent_name: str,
    message: str,
    agent_state: AgentState | None = None,
    global_storage: GlobalStorage | None = None,
) -> str:
    """From a tool or a hook: has a sub-agent of the agent answer. `agent_state` is that agent's, None: of whoever is at
    work here; values of `global_storage` are written into the run's. Raises SubAgentNotFoundError, and what the
    sub-agent raises."""
    state = agent_state or get_context()
    tool = state.agent.subagents.get(agent_name)
    if global_storage is not None and global_storage is not state.global_storage:
        state.global_storage.update(global_storage.to_dict())
    return await tool.call(message, state)
