"""A light container: what an agent is made of. Running it is the executor's work, everything else hooks do."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Unpack

from archon.errors import FailedPrecondition
from archon_mesh.agent.config import AgentConfig, AgentFields
from archon_mesh.agent.events.types import Emitter, Listener
from archon_mesh.agent.hooks.handler import Handler
from archon_mesh.agent.hooks.middleware import Hooks, Middleware, SingleHook
from archon_mesh.agent.hooks.points import HookEvent
from archon_mesh.agent.hooks.shared_memory import AwarenessMiddleware, SharedMemoryMiddleware
from archon_mesh.agent.loop.run import run_query
from archon_mesh.agent.loop.tool_policy import ToolPolicy
from archon_mesh.agent.models import Models
from archon_mesh.agent.state.agent_state import AgentState, Phase, new_id
from archon_mesh.agent.state.global_storage import GlobalStorage
from archon_mesh.agent.state.history import HistoryList, Sessions
from archon_mesh.agent.subagents import SubAgents
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm.base import ToolSpec
from archon_mesh.tools.engine import ToolExecutionEngine
from archon_mesh.tools.registry import ToolRegistry

Message = str | Sequence[ChatMessage]


class Agent:
    """Made of an AgentConfig, or of its fields: `Agent("poet", system_prompt=..., tools=[...])`.

    With a `session_manager` the history is that of `user_id` and `session_id`; one is made where none is named.
    `memory_graph` is a SharedMemoryGraph, or a client of one; `agent_id` is its node there, the name where none is
    given. `global_storage` is the caller's, for a sub-agent, where none is given.

    An agent keeps its history from run to run, and answers one query at a time: others wait. Close it, or use it as an
    async context manager, where it makes its model itself.
    """

    subagent_name: ClassVar[str] = ""
    subagent_description: ClassVar[str] = ""
    subagent_stateless: ClassVar[bool] = False
    subagent_exposed: ClassVar[bool] = False
    """Whether `@subagent`, or a factory, has said of the class how its instances are seen as sub-agents."""

    def __init__(
        self,
        config: AgentConfig | str | None = None,
        /,
        *,
        session_manager: Sessions | None = None,
        user_id: str = "",
        session_id: str = "",
        global_storage: GlobalStorage | None = None,
        memory_graph: Any = None,
        agent_id: str = "",
        **given: Unpack[AgentFields],
    ) -> None:
        """Raises InvalidArgument for what no agent can be made of, TypeError for a field that there isn't,
        AlreadyExists for two tools, or two sub-agents, of one name."""
        self.config = AgentConfig.of(config, given)
        self.name = self.config.name
        self.description = self.config.description
        self.system_prompt = self.config.system_prompt
        self.max_iterations = self.config.max_iterations
        self.policy = ToolPolicy.of(self.config.tool_policy)
        self.exit_on_success = frozenset(self.config.exit_on_success)
        self.memory_graph = memory_graph
        self.agent_id = agent_id or (self.name if memory_graph is not None else new_id())
        self.session_manager = session_manager
        self.user_id = user_id
        self.session_id = session_id
        self.global_storage = global_storage
        self.tools = ToolRegistry(self.config.tools)
        self.engine = ToolExecutionEngine(self.tools, timeout=self.config.tool_timeout)
        self.history = HistoryList(agent_name=self.name)
        self.registered: list[Middleware | SingleHook] = list(self.config.middlewares)
        """Middlewares, and what `on` has added, in order."""
        self.state: AgentState | None = None
        """Of the run that goes on, or went on last."""
        self.models = Models(self.config.model)
        self._going_on = asyncio.Event()
        self._going_on.set()
        self._turn = asyncio.Lock()
        self.subagents = SubAgents(self, self.config.max_running_subagents)
        for key, one in _by_key(self.config.sub_agents):
            self.register_agent(one, name=key)

    # Running it ----------------------------------------------------------------------------------------------------

    def run(
        self,
        message: Message,
        context: Mapping[str, Any] | None = None,
        event_handlers: Sequence[Listener] | None = None,
    ) -> str:
        """`run_async` for code without an event loop. Raises FailedPrecondition where there is one."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self._run_and_close(message, context, event_handlers))
        raise FailedPrecondition("an event loop runs here: await run_async() instead of calling run()")

    async def run_async(
        self,
        message: Message,
        context: Mapping[str, Any] | None = None,
        event_handlers: Sequence[Listener] | None = None,
    ) -> str:
        """The final text. `message` is the query, or messages of which the last is; `context` is for tools and hooks
        (`state.context`); `event_handlers` get every event. Raises IterationLimit, HookError, what the model raises."""
        return await run_query(self, message, context or {}, Emitter(event_handlers or ()))

    async def _run_and_close(self, *given: Any) -> str:
        try:
            return await self.run_async(*given)
        finally:
            await self.close()

    async def close(self) -> None:
        """Closes the model that it made, and its sub-agents'. It can be run again. Idempotent."""
        await self.models.close()
        await self.subagents.close()

    async def __aenter__(self) -> Agent:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def pause(self) -> None:
        """It, and its sub-agents, hold before their next step."""
        self._going_on.clear()

    def resume(self) -> None:
        """They go on."""
        self._going_on.set()

    @property
    def paused(self) -> bool:
        """Whether it holds before its next step."""
        return not self._going_on.is_set()

    async def gate(self, state: AgentState) -> None:
        """Returns when neither this agent nor one that called it is paused."""
        for one in state.lineage():
            if one.agent.paused:
                await one.agent._going_on.wait()
                await self.gate(state)
                return

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """One query at a time: of this agent, and of its session."""
        async with self._turn:
            yield

    def forked(self) -> Agent:
        """A copy with the same model, tools, sub-agents and hooks, and a fork of its history, in no session; what is
        registered with one of them from here on the other doesn't have."""
        twin = copy.copy(self)
        twin.history, twin.session_manager = self.history.copy(), None
        twin._turn, twin.state = asyncio.Lock(), None
        twin.registered = list(self.registered)
        twin.tools = self.tools.copy()
        twin.engine = ToolExecutionEngine(twin.tools, timeout=self.config.tool_timeout)
        twin.subagents = self.subagents.copy(twin)
        return twin

    # What it is made of --------------------------------------------------------------------------------------------

    @property
    def phase(self) -> Phase:
        """What it does now."""
        return self.state.phase if self.state is not None else Phase.IDLE

    def on(self, event: HookEvent | str) -> Handler:
        """`agent.on("before_tool").when(lambda hook: ...).handle("stop", "not allowed")`."""
        return Handler(self, event)

    def use(self, *middlewares: Middleware) -> Agent:
        """Adds them after those that there are."""
        self.registered += middlewares
        return self

    def register_agent(
        self, agent: Any, *, name: str = "", description: str = "", stateless: bool | None = None
    ) -> Agent:
        """Another agent becomes a tool of this one, also while this one runs. See SubAgents.register."""
        self.subagents.register(agent, name, description, stateless)
        return self

    @property
    def sub_agents(self) -> Mapping[str, Any]:
        """By key."""
        return self.subagents.by_key

    def hooks(self, inherited: Sequence[Middleware] = ()) -> Hooks:
        """What agents above bring, then all that is registered now; what its other parts bring comes last, so that it
        sees what hooks have made."""
        brought: list[Middleware] = []
        if self.memory_graph is not None:
            if self.subagents.by_key:
                brought.append(AwarenessMiddleware(self.memory_graph))
            brought.append(
                SharedMemoryMiddleware(self.memory_graph, self.agent_id, all_ancestors=self.config.all_ancestors)
            )
        return Hooks([*inherited, *self.registered, *brought])

    def messages_of(self, state: AgentState) -> list[ChatMessage]:
        """The messages of a call of the model: the system prompt, then the history."""
        prompt = [ChatMessage("system", self.system_prompt)] if self.system_prompt else []
        return [*prompt, *state.history]

    def offered(self, state: AgentState) -> tuple[ToolSpec, ...]:
        """The tools that the model may call now."""
        specs = self.tools.specs
        if self.policy.allowed is None and not self.policy.at_most:
            return specs
        return tuple(one for one in specs if self.policy.offers(one.name, state.tool_calls))


def _by_key(given: Mapping[str, Any] | Iterable[Any]) -> Iterable[tuple[str, Any]]:
    return given.items() if isinstance(given, Mapping) else (("", one) for one in given)
