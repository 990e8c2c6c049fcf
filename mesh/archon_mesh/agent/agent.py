"""The agent: a container of model, tools, sub-agents and hooks. The loop runs it; hooks do everything else."""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack, cast, overload

from typing_extensions import TypeVar

from archon.errors import FailedPrecondition, InvalidArgument
from archon_mesh.agent.config import AgentConfig, AgentFields, UntypedFields
from archon_mesh.agent.events.emit import Emitter
from archon_mesh.agent.events.types import EventHandler
from archon_mesh.agent.hooks.handler import Handler
from archon_mesh.agent.hooks.interception import InterceptionMiddleware
from archon_mesh.agent.hooks.middleware import Middleware, SingleHook
from archon_mesh.agent.hooks.points import HookEvent
from archon_mesh.agent.hooks.runner import HookRunner
from archon_mesh.agent.hooks.shared_memory import AwarenessMiddleware, SharedMemoryMiddleware
from archon_mesh.agent.ids import new_id
from archon_mesh.agent.lazy_model import LazyModel
from archon_mesh.agent.loop.run import run_query
from archon_mesh.agent.loop.run_lock import RunLock
from archon_mesh.agent.state.agent_state import AgentState
from archon_mesh.agent.state.global_storage import GlobalStorage
from archon_mesh.agent.state.history import HistoryList, Sessions
from archon_mesh.agent.state.running_agent import Phase
from archon_mesh.agent.subagents import SubAgentMetadata, SubAgents, SubAgentTool
from archon_mesh.agent.tool_policy import ToolPolicy
from archon_mesh.core.messages import ChatMessage
from archon_mesh.core.people import Trigger, check_rules
from archon_mesh.llm.base import ModelClient
from archon_mesh.llm.structured import TypedOutput
from archon_mesh.tools.engine import ToolExecutionEngine
from archon_mesh.tools.errors import DuplicateTool
from archon_mesh.tools.registry import SEPARATOR, ToolRegistry
from archon_mesh.tools.source import SourcedTool, ToolSource
from archon_mesh.tools.tool import Tool, share_refusal

if TYPE_CHECKING:
    from archon_mesh.agent.plan_handle import PlanHandle
    from archon_mesh.agent.planned_run import PlannedRun
    from archon_mesh.planning.options import TaskOptions

Message = str | Sequence[ChatMessage]


Out = TypeVar("Out", default=Any)
"""The type of an agent's answers."""


class Agent(SubAgentMetadata, Generic[Out]):
    """Built from an AgentConfig, or from its fields: `Agent("poet", system_prompt=..., tools=[...])`. Its answers are
    texts, or objects of the type `output`.

    With a `session_manager`, the history belongs to `user_id` and `session_id`; without a `session_id` a session is
    created. `memory_graph` is a SharedMemoryGraph, or a client of one; `agent_id` is the agent's node in it, by default
    its name. `global_storage` defaults to the storage of the caller's run, or to a new one.

    An agent keeps its history from run to run, and answers one query at a time; other queries wait. Close it, or use it
    as an async context manager, if it creates its own model client.
    """

    @overload
    def __init__(self: Agent[str], config: str | None = None, **fields: Unpack[UntypedFields]) -> None: ...

    @overload
    def __init__(
        self, config: AgentConfig | str | None = None, *, output: type[Out], **fields: Unpack[UntypedFields]
    ) -> None: ...

    @overload
    def __init__(
        self: Agent[Any],
        config: AgentConfig | str | None = None,
        *,
        output: object = None,
        **fields: Unpack[UntypedFields],
    ) -> None: ...

    def __init__(
        self,
        config: AgentConfig | str | None = None,
        *,
        output: object = None,
        session_manager: Sessions | None = None,
        user_id: str = "",
        session_id: str = "",
        global_storage: GlobalStorage | None = None,
        memory_graph: Any = None,
        agent_id: str = "",
        **fields: Unpack[AgentFields],
    ) -> None:
        """Raises InvalidArgument for an invalid field, also for an `output` that is neither a type nor a JSON Schema,
        TypeError for an unknown field, and AlreadyExists if two tools or two sub-agents have the same name."""
        self.config = AgentConfig.of(config, fields if output is None else {**fields, "output": output})
        self._take_settings()
        self.memory_graph = memory_graph
        self.agent_id = agent_id or (self.name if memory_graph is not None else new_id())
        self.session_manager = session_manager
        self.user_id = user_id
        self.session_id = session_id
        self.global_storage = global_storage
        self._take_tools()
        self.history = HistoryList(agent_name=self.name)
        self.registered: list[Middleware | SingleHook] = list(self.config.middlewares)
        """Middlewares and the handlers added by `on`, in order of registration."""
        self.state: AgentState | None = None
        """State of the current or last run."""
        self.planned_run: PlannedRun | None = None
        """The current or last `run_task`."""
        self._plans: set[PlanHandle[Out]] = set()
        """The plans under way."""
        self.identity = object()
        """The same for all forks, by which a loop of calls is recognised."""
        self.run_lock = RunLock(self.name)
        self._lazy_model = LazyModel(self.config.model)
        self._lazy_fallback = LazyModel(self.config.fallback_model) if self.config.fallback_model else None
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._sub_agents = SubAgents(self, self.config.max_running_subagents, self.config.subagent_timeout)
        for key, agent in _with_keys(self.config.sub_agents):
            self.register_agent(agent, name=key)

    def _take_settings(self) -> None:
        """Copies the fields of the configuration that a fork may change. Raises InvalidArgument if one is invalid."""
        try:
            self.output = TypedOutput.of(self.config.output)
        except InvalidArgument as error:
            raise InvalidArgument(f"agent {self.config.name}: {error.message}") from None
        self.name = self.config.name
        self.description = self.config.description
        self.system_prompt = self.config.system_prompt
        self.prompt_variants = dict(self.config.prompt_variants)
        self.tools_last: tuple[str, ...] = ()
        self.max_iterations = self.config.max_iterations
        self.max_repeats = self.config.max_repeats
        self.goal_check = self.config.goal_check
        self.temperature = self.config.temperature
        self.max_tokens = self.config.max_tokens
        self.model_timeout = self.config.timeout
        self.idle_timeout = self.config.idle_timeout
        self.first_token_timeout = self.config.first_token_timeout
        self.retries = self.config.retries
        self.policy = ToolPolicy.of(self.config.tool_policy)
        self.rules = tuple(self.config.rules)
        if self.rules:
            check_rules(self.rules, [Trigger.TOOL])
        self.exit_on_success = frozenset(self.config.exit_on_success)

    def _take_tools(self) -> None:
        """Makes the registry and the engine of the agent's own tools. Raises AlreadyExists if two have one name."""
        own_tools = list(self.config.tools)
        if self.config.messages is not False:
            from archon_mesh.tools.messages import message_tools  # few agents need the types of messages

            own_tools += message_tools(self.config.messages)
        sourced = [tool for tool in own_tools if isinstance(tool, SourcedTool)]
        self.tools = ToolRegistry(tool for tool in own_tools if not isinstance(tool, SourcedTool))
        self.tool_sources: tuple[ToolSource, ...] = (*self.config.tool_sources, *sourced)
        self.shared_tools = frozenset(self.config.shared_tools)
        _check_names(self.name, self.tools, sourced)
        self._check_shared()
        self.engine = ToolExecutionEngine(
            self.tools,
            timeout=self.config.tool_timeout,
            permissions=self.policy,
            quota=self.config.tool_quota,
            credentials=self.config.credentials,
            ask_credential=self.config.ask_credential,
        )

    # Running ---------------------------------------------------------------------------------------------------------

    def run(
        self,
        message: Message,
        context: Mapping[str, Any] | None = None,
        event_handlers: Sequence[EventHandler] | None = None,
        max_iterations: int | None = None,
    ) -> Out:
        """`run_async` for code without an event loop. Raises FailedPrecondition if an event loop is running."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self._run_and_close(message, context, event_handlers, max_iterations))
        raise FailedPrecondition("an event loop is running: await run_async() instead of calling run()")

    async def run_async(
        self,
        message: Message,
        context: Mapping[str, Any] | None = None,
        event_handlers: Sequence[EventHandler] | None = None,
        max_iterations: int | None = None,
    ) -> Out:
        """Returns the final answer: a text, or an object of the type `output`; for a JSON Schema, the JSON value.

        `message` is the query, or a list of messages that ends with it, which may have files. `context` is for tools
        and hooks (`state.context`). `event_handlers` receive every event. `max_iterations` replaces the agent's limit
        for this run. Raises IterationLimit, ModelRefused, OutputMismatch, HookError, the model's errors, and
        InvalidArgument if the limit is below 1.
        """
        if max_iterations is not None and max_iterations < 1:
            raise InvalidArgument(f"agent {self.name}: max_iterations must be at least 1")
        emitter = Emitter(event_handlers or ())
        return self._typed(
            await run_query(self, message, context or {}, emitter, max_iterations=max_iterations, output=self.output)
        )

    async def run_task(
        self,
        query: str,
        context: Mapping[str, Any] | None = None,
        event_handlers: Sequence[EventHandler] | None = None,
        **options: Unpack[TaskOptions],
    ) -> Out:
        """Returns the answer to a query that may take several steps: directly, or by a plan that the tools, the model
        and the sub-agents execute. `planned_run` then says which, why, and how it went.

        `context` and `event_handlers` are as in `run_async`. Raises the errors of `run_async` and
        `Planner.create_plan`, and PlanFailed.
        """
        from archon_mesh.agent.planned_run import PlannedRun

        return await self._run_planned(PlannedRun(**options), query, context, event_handlers)

    def plan(
        self,
        query: str,
        context: Mapping[str, Any] | None = None,
        event_handlers: Sequence[EventHandler] | None = None,
        **options: Unpack[TaskOptions],
    ) -> PlanHandle[Out]:
        """Starts a plan for a query, as `run_task` does, and returns its handle, by which it is paused, edited and
        cancelled, and by which a person answers its questions. The query is planned unless `mode` says otherwise.

        Raises InvalidArgument if an option is out of range, and RuntimeError without a running event loop.
        """
        from archon_mesh.agent.plan_handle import PlanHandle
        from archon_mesh.agent.planned_run import PlannedRun
        from archon_mesh.planning.decide import TaskMode

        options.setdefault("mode", TaskMode.PLANNED)
        run = PlannedRun(takes_answers=True, **options)
        handle = PlanHandle(run, lambda: self._run_planned(run, query, context, event_handlers), self._plans.discard)
        self._plans.add(handle)
        return handle

    async def _run_planned(
        self,
        planned_run: PlannedRun,
        query: str,
        context: Mapping[str, Any] | None,
        event_handlers: Sequence[EventHandler] | None,
    ) -> Out:
        self.planned_run = planned_run
        emitter = Emitter(event_handlers or ())
        return self._typed(
            await run_query(self, query, context or {}, emitter, loop=planned_run.answer, output=self.output)
        )

    def _check_shared(self) -> None:
        """Raises InvalidArgument if one of the `shared_tools` cannot be shared, or is no tool of this agent."""
        names = {source.name for source in self.tool_sources}
        for name in sorted(self.shared_tools):
            tool = self.tools.get_tool(name)
            if tool is None and name.partition(SEPARATOR)[0] not in names:
                raise InvalidArgument(f"agent {self.name}: cannot share {name!r}: the agent has no such tool")
            tool = tool or next(
                (each for each in self.tool_sources if isinstance(each, Tool) and each.name == name), None
            )
            if tool is not None and (why := share_refusal(tool)):
                raise InvalidArgument(f"agent {self.name}: cannot share {name!r}: {why}")

    def _typed(self, answer: str) -> Out:
        """Returns an answer, checked as JSON before, as an object of the agent's output."""
        return cast(Out, answer if self.output is None else self.output.type.parse(answer))

    async def _run_and_close(self, *args: Any) -> Out:
        try:
            return await self.run_async(*args)
        finally:
            await self.close()

    async def call(self, message: str, caller: AgentState, *, stateless: bool) -> str:
        """Answers as a sub-agent, with a typed answer as JSON. If stateless, a copy with a forked history runs, and is
        discarded afterwards."""
        answer = await (self.forked() if stateless else self).run_async(message)
        return str(answer) if self.output is None else self.output.to_json(answer)

    async def connect_tools(self) -> None:
        """Connects the sources of tools and registers their tools; each run does so at its start. Raises the errors of
        `ToolSource.connect`."""
        for source in self.tool_sources:
            await source.connect()
            source.register(self.tools)

    async def close(self) -> None:
        """Stops the agent's plans, and closes its middlewares, its sources of tools, its sub-agents, and the model
        client that it created. The agent can run again. Idempotent."""
        for plan in list(self._plans):
            await plan.close()
        for middleware in self.registered:
            if isinstance(middleware, Middleware):
                await middleware.close()
        for source in self.tool_sources:
            await source.close()
        await self._lazy_model.close()
        if self._lazy_fallback is not None:
            await self._lazy_fallback.close()
        await self._sub_agents.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def pause(self) -> None:
        """Makes the agent and its sub-agents wait before their next step."""
        self._resumed.clear()

    def resume(self) -> None:
        """Lets the agent and its sub-agents go on after `pause`. Idempotent."""
        self._resumed.set()

    @property
    def paused(self) -> bool:
        """Whether the agent waits before its next step."""
        return not self._resumed.is_set()

    async def wait_until_resumed(self) -> None:
        """Returns when the agent is not paused."""
        await self._resumed.wait()

    def forked(self) -> Self:
        """Returns a copy with the same model, tools, sub-agents and hooks, and a fork of the history, in no session.

        Later registrations with either agent do not affect the other.
        """
        fork = copy.copy(self)
        fork.history, fork.session_manager = self.history.copy(), None
        fork.run_lock, fork.state = RunLock(self.name), None
        fork._plans = set()
        fork.registered = list(self.registered)
        fork.tools = self.tools.copy()
        fork.engine = self.engine.for_registry(fork.tools)
        fork._sub_agents = self._sub_agents.copy(fork)
        return fork

    def restricted(self, tool_names: Collection[str], output: object = None) -> Agent[Any]:
        """Returns a fork for one part of a task: with these tools only, an empty history, no sub-agents, and `output`
        as in an AgentConfig.

        It shares no memory graph, because an answer to a part is no answer of the agent.
        """
        fork: Agent[Any] = self.forked()
        fork.output = TypedOutput.of(output)
        fork.history = HistoryList(agent_name=self.name)
        fork.identity = object()
        fork.memory_graph, fork.goal_check, fork.tool_sources = None, None, ()
        fork.tools = ToolRegistry.of(each for each in self.tools.registrations if each.name in tool_names)
        fork.engine = self.engine.for_registry(fork.tools)
        fork._sub_agents = SubAgents(fork, 1, self.config.subagent_timeout)
        return fork

    # Parts -----------------------------------------------------------------------------------------------------------

    @property
    def model(self) -> ModelClient:
        """The model client, created on first use. Raises the errors of `create_model`."""
        return self._lazy_model.client

    @property
    def fallback_model(self) -> ModelClient | None:
        """The client of the model that answers if `model` keeps failing, created on first use; None if there is none.
        Raises the errors of `create_model`."""
        return self._lazy_fallback.client if self._lazy_fallback is not None else None

    @property
    def phase(self) -> Phase:
        """The agent's current phase."""
        return self.state.phase if self.state is not None else Phase.IDLE

    def on(self, event: HookEvent | str) -> Handler[Self]:
        """Starts a handler: `agent.on("before_tool").when(lambda hook: ...).handle("stop", "not allowed")`."""
        return Handler(self, event)

    def use(self, *middlewares: Middleware) -> Self:
        """Adds middlewares after those already registered."""
        self.registered += middlewares
        return self

    def register_agent(
        self, agent: Any, *, name: str = "", description: str = "", stateless: bool | None = None
    ) -> Self:
        """Registers a sub-agent as a tool of this agent, also during a run. `name` is its key and the tool's name.

        Arguments that are not set default to the metadata of the sub-agent's class. Raises NotAnAgent, AlreadyExists
        if the key is taken, and InvalidArgument if the agent is this one.
        """
        self._sub_agents.register(agent, name, description, stateless)
        self.warn_of_missing_nodes()
        return self

    def warn_of_missing_nodes(self) -> None:
        """Logs, once for each, the sub-agents that are not in the memory graph.

        A graph whose methods are awaited is asked when a run starts instead.
        """
        if self.memory_graph is not None and not inspect.iscoroutinefunction(self.memory_graph.has_node):
            for key, node_id in self._sub_agents.node_ids().items():
                if not self.memory_graph.has_node(node_id):
                    self._sub_agents.warn_of_missing_node(key)

    @property
    def sub_agents(self) -> Mapping[str, SubAgentTool]:
        """The sub-agents as tools, by key."""
        return self._sub_agents.by_key

    def hook_runner(self, inherited: Sequence[Middleware] = ()) -> HookRunner:
        """Returns the hooks of a run: `inherited` middlewares of calling agents, then those registered now.

        The middlewares for shared memory come last, so that they see the changes of the other hooks.
        """
        shared_memory: list[Middleware] = []
        if self.memory_graph is not None:
            if self.sub_agents:
                shared_memory.append(
                    AwarenessMiddleware(
                        self.memory_graph, self._sub_agents.node_ids, self._sub_agents.warn_of_missing_node
                    )
                )
            shared_memory.append(
                SharedMemoryMiddleware(self.memory_graph, self.agent_id, all_ancestors=self.config.all_ancestors)
            )
        # The last one, so that a person sees the arguments that the tool gets.
        approvals = [InterceptionMiddleware(self.rules)] if self.rules else []
        return HookRunner([*inherited, *self.registered, *shared_memory, *approvals])


def _with_keys(agents: Mapping[str, Any] | Iterable[Any]) -> Iterable[tuple[str, Any]]:
    return agents.items() if isinstance(agents, Mapping) else (("", agent) for agent in agents)


def _check_names(agent_name: str, tools: ToolRegistry, sourced: Sequence[SourcedTool]) -> None:
    """Raises DuplicateTool if a tool that is connected later has the name of another one."""
    taken = set(tools.names)
    for tool in sourced:
        if tool.full_name in taken:
            raise DuplicateTool(
                f"agent {agent_name}: two tools have the name {tool.full_name!r}: give the remote one a namespace"
            )
        taken.add(tool.full_name)
