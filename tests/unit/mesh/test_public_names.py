"""Names that users look for, and the classes that they name."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import networkx as nx
import pytest

from archon.errors import GraphCycle, InvalidArgument, Unavailable
from archon.memory import LongTermMemoryClient, MemoryGraphClient, WorkingMemoryClient
from archon_mesh.agent import (
    Agent,
    AgentConfig,
    AgentEvent,
    AgentEventsMiddleware,
    AgentFactory,
    AgentSpec,
    AgentState,
    ContextCompactionMiddleware,
    GlobalStorage,
    HistoryList,
    HookContext,
    HookDecision,
    Middleware,
    ModelParams,
    SharedMemoryGraph,
    StreamChunk,
    SubAgentNotFoundError,
    call_sub_agent,
    get_context,
    subagent,
)
from archon_mesh.agent.events.types import TextMessageContent
from archon_mesh.agent.hooks.middleware import ModelCall
from archon_mesh.core.memory_graph import MemoryItem, PropagationPolicy
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.engine.plan import Plan, SubTask, Task
from archon_mesh.llm import ModelReply, ScriptedModel
from archon_mesh.memory import EpisodicMemory, SessionManager, WorkingMemory
from archon_mesh.memory.long_term import LongTermMemory
from archon_mesh.planning import Planner, create_plan
from archon_mesh.recovery import ErrorContext, ErrorSeverity, Recovery, RecoveryOrchestrator
from archon_mesh.tools import Tool, ToolExecutionEngine, ToolRegistry, ToolResult, ToolResultStatus, tool
from tests.fixtures.scripted_model import says


def in_new_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


async def test_agent_takes_a_config_whose_fields_were_set() -> None:
    class Shout(Middleware):
        def query_end(self, hook: HookContext) -> object:
            hook.value = hook.value.upper()
            return None

    config = AgentConfig("poet", model=ScriptedModel([says("quiet"), says("quiet")]))
    config.middlewares = [Shout()]
    agent = Agent(config=config)
    config.middlewares = []
    config.name = "other"
    assert (agent.name, await agent.run_async("?")) == ("poet", "QUIET")
    config.max_iterations = 0
    with pytest.raises(InvalidArgument, match="max_iterations must be at least 1"):
        Agent(config=config)


async def test_hooks_see_the_message_and_the_history() -> None:
    seen: list[tuple[str, list[str]]] = []
    look = tool(name="look")(lambda: "a door")
    agent = Agent("a", model=ScriptedModel([says("I look", ToolCall("c", "look", "{}")), says("done")]), tools=[look])

    def note(hook: HookContext) -> None:
        assert hook.assistant_message is not None
        seen.append((hook.assistant_message.content, [message.role for message in hook.conversation_history]))

    agent.on("after_model").handle(effects=note)
    await agent.run_async("?")
    assert seen == [("I look", ["user"]), ("done", ["user", "assistant", "tool"])]
    context = HookContext("before_model", agent, agent.state)  # type: ignore[arg-type]
    assert context.assistant_message is None
    assert context.conversation_history[-1] == ChatMessage("assistant", "done")


def test_cycle_is_a_networkx_error_where_networkx_is_loaded() -> None:
    error = GraphCycle("a -> a", metadata={"cycle": "a -> a"})
    assert isinstance(error, ValueError)
    with pytest.raises(nx.NetworkXUnfeasible):
        raise error
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.metadata) == (GraphCycle, {"cycle": "a -> a"})


def test_cycle_error_imports_no_networkx() -> None:
    code = (
        "import sys, archon.client, archon.memory, archon.registry\n"
        "from archon.errors import GraphCycle\n"
        "first = GraphCycle('a -> a')\n"
        "print('networkx' in sys.modules, isinstance(first, ValueError))\n"
        "import networkx\n"
        "try:\n    raise GraphCycle('b -> b')\n"
        "except networkx.NetworkXUnfeasible as error:\n    print(error, type(error) is type(first))"
    )
    assert in_new_process(code).split() == ["False", "True", "b", "->", "b", "True"]


def test_shared_memory_graph_and_its_items() -> None:
    graph = SharedMemoryGraph(clock=lambda: 7.0)
    graph.add_agent("a")
    graph.add_edge("a", "b", policy=PropagationPolicy.FINAL_RESPONSE_ONLY)
    graph.add_edge("b", "c")
    item = graph.publish("a", "x", metadata={"k": 1})
    assert item == MemoryItem(
        source_id="a",
        content="x",
        timestamp=7.0,
        version=1,
        policy=PropagationPolicy("final_response_only"),
        metadata={"k": 1},
    )
    assert [policy.value for policy in PropagationPolicy] == ["final_response_only", "tool_results", "full_history"]
    assert (graph.has_node("a"), graph.pull_for("b"), graph.pull_for_indirect("c")) == (True, [item], [item])
    assert graph.get_edges_for_nodes(["a", "b"]) == [("a", "b")]
    assert graph.get_topological_order() == graph.get_topological_order(node_ids=["c", "b", "a"]) == ["a", "b", "c"]
    with pytest.raises(nx.NetworkXUnfeasible) as cycle:
        graph.add_edge("c", "a")
    assert isinstance(cycle.value, ValueError)
    graph.clear_published_data()
    assert graph.to_dict()["items"] == []


def test_served_forms_have_the_methods_of_the_pure_ones() -> None:
    graph = "add_agent add_edge has_node publish pull_for pull_for_indirect get_edges_for_nodes get_topological_order"
    for name in f"{graph} clear_published_data to_dict".split():
        assert inspect.iscoroutinefunction(getattr(MemoryGraphClient, name)), name
        assert not inspect.iscoroutinefunction(getattr(SharedMemoryGraph, name)), name
        pure, served = (
            list(inspect.signature(getattr(cls, name)).parameters) for cls in (SharedMemoryGraph, MemoryGraphClient)
        )
        pure = [parameter for parameter in pure if parameter != "task_id"]  # items of tasks come from orchestrators
        assert served[: len(pure)] == pure, name
    for name in ["get", "set", "update", "clear", "to_dict"]:
        assert inspect.iscoroutinefunction(getattr(WorkingMemoryClient, name)), name
        assert callable(getattr(WorkingMemory, name)), name


async def test_agent_and_its_state() -> None:
    seen: list[AgentState] = []

    @tool
    def look(agent_state: AgentState) -> str:
        """Looks."""
        seen.append(agent_state)
        assert get_context() is agent_state
        agent_state.global_storage.set("found", 1)
        return "a door"

    events: list[AgentEvent] = []
    storage = GlobalStorage()
    agent = Agent(
        name="lead",
        system_prompt="You look.",
        model=ScriptedModel([says("", ToolCall("c", "look", "{}")), says("done")]),
        tools=[look],
        sub_agents=[],
        max_iterations=4,
        tool_policy={"at_most": {"look": 1}},
        exit_on_success=[],
        user_id="me",
        session_id="s",
        global_storage=storage,
        middlewares=[AgentEventsMiddleware(session_id="s", on_event=events.append)],
    )
    assert (Agent().max_iterations, agent.memory_graph) == (15, None)
    assert await agent.run_async("?", context={"k": 1}, event_handlers=[events.append]) == "done"
    (state,) = seen
    assert (state.agent_id, state.agent_name, state.root_run_id) == (agent.agent_id, "lead", state.run_id)
    assert (state.parent_run_id, state.current_iteration, state.max_iterations) == (None, 2, 4)
    assert state.history is agent.history
    assert storage.get("found") == 1
    assert "".join(event.delta for event in events if isinstance(event, TextMessageContent)) == "done"
    assert {event.type for event in events} >= {"TEXT_MESSAGE_CONTENT", "TOOL_CALL_ARGS"}


def test_agent_runs_without_an_event_loop() -> None:
    agent = Agent(model=ScriptedModel([says("ok")]))
    with ThreadPoolExecutor(1) as executor:  # a thread without a loop, as a script
        assert executor.submit(agent.run, "?").result() == "ok"


async def test_hooks_and_middlewares() -> None:
    calls: list[str] = []

    class Every(Middleware):
        def before_agent(self, hook: HookContext) -> None:
            calls.append("before_agent")

        def after_agent(self, hook: HookContext) -> None:
            calls.append("after_agent")

        def before_model(self, hook: HookContext) -> None:
            calls.append("before_model")

        def after_model(self, hook: HookContext) -> None:
            calls.append("after_model")

        def before_tool(self, hook: HookContext) -> None:
            assert hook.tool_call is not None
            calls.append("before_tool")

        def after_tool(self, hook: HookContext) -> None:
            assert hook.tool_result is not None
            calls.append(f"after_tool {hook.iteration} {hook.agent.name} {hook.event} {hook.error}")

        async def wrap_model_call(self, params: ModelParams, call: ModelCall) -> ModelReply:
            calls.append("wrap_model_call")
            return await call(params)

        def stream_chunk(self, chunk: StreamChunk, params: ModelParams) -> None:
            calls.append("stream_chunk")

    look = tool(name="look")(lambda: "a door")
    model = ScriptedModel([says("", ToolCall("c", "look", "{}")), says("draft")])
    agent = Agent("a", model=model, tools=[look], middlewares=[Every()])
    agent.on("before_final_response").when(lambda hook: hook.value == "draft").handle(
        HookDecision.CONTINUE, value="final", effects=lambda hook: calls.append("effect")
    )
    assert await agent.run_async("?") == "final"
    model_call = ["before_model", "wrap_model_call"]
    assert calls == [
        "before_agent",
        *model_call,
        *["stream_chunk"] * 2,
        "after_model",
        "before_tool",
        "after_tool 1 a after_tool None",
        *model_call,
        "stream_chunk",
        "after_model",
        "effect",
        "after_agent",
    ]
    assert [decision.name for decision in HookDecision] == ["CONTINUE", "RETRY", "STOP", "FAIL"]
    ContextCompactionMiddleware(
        max_context_tokens=10, auto_compact=False, threshold=0.5, compaction_strategy="sliding_window", window_size=1
    )


async def test_sub_agents_and_factory() -> None:
    @subagent(name="poet", description="Rhymes.", stateless=True)
    class Poet(Agent):
        pass

    assert (Poet.subagent_name, Poet.subagent_description, Poet.subagent_stateless) == ("poet", "Rhymes.", True)
    graph = SharedMemoryGraph()
    agents = AgentFactory(global_defaults={"max_iterations": 3}).register("poet", Poet).register("lead", Agent)
    assert agents.with_memory_graph(graph) is agents
    assert (agents.get_registered_names(), agents.is_registered("poet")) == (["poet", "lead"], True)
    assert agents.get_spec("poet") == AgentSpec(
        cls=Poet,
        expose_as_subagent=True,
        subagent_name="poet",
        subagent_description="Rhymes.",
        stateless=True,
        override_decorator=False,
        defaults={},
    )

    @tool
    async def delegate(agent_state: AgentState) -> str:
        """Delegates."""
        with pytest.raises(SubAgentNotFoundError, match="absent"):
            await call_sub_agent("absent", "x")
        return await call_sub_agent(
            agent_name="poet", message="x", agent_state=agent_state, global_storage=agent_state.global_storage
        )

    lead = agents.create(
        "lead", model=ScriptedModel([says("", ToolCall("c", "delegate", "{}")), says("done")]), tools=[delegate]
    )
    lead.register_agent(
        Poet("p", model=ScriptedModel([says("a verse")])), name="poet", description="d", stateless=False
    )
    assert await lead.run_async("?") == "done"
    assert [message.content for message in lead.history if message.role == "tool"] == ["a verse"]


async def test_tools_and_their_results() -> None:
    class Shout(Tool):
        name = "shout"
        description = "Shouts."
        parameters_schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

        async def execute(self, **kwargs: object) -> ToolResult:
            return ToolResult.success(str(kwargs["text"]).upper(), metadata={"loud": True})

    registry = ToolRegistry()
    registry.register_tool(Shout())
    assert registry.get_tool("shout") is registry.list_tools()[0]
    assert registry.get_tool("none") is None
    assert Shout().validate_args(args={"text": "a"}) is None
    assert (
        Shout().validate_args(args={"text": 1}) == "invalid arguments for tool shout: text: 1 is not of type 'string'"
    )
    engine = ToolExecutionEngine(registry)
    result = await engine.execute_tool_call(tool_name="shout", arguments={"text": "a"}, timeout_seconds=5)
    assert (result.content, result.status, result.error_message) == ("A", ToolResultStatus.SUCCESS, "")
    assert result.metadata["loud"] is True
    assert ToolResult.success(content="A", metadata={"loud": True}) == ToolResult("A", metadata={"loud": True})
    failed = ToolResult.error(error_message="no", metadata={"k": 1})
    assert (failed.status, failed.error_message, failed.metadata) == (ToolResultStatus.ERROR, "no", {"k": 1})
    assert ToolResult.timeout(error_message="late", metadata=None).status is ToolResultStatus.TIMEOUT
    with pytest.raises(AttributeError):
        result.content = "B"  # type: ignore[misc]


async def test_memories_of_an_agent() -> None:
    sessions = SessionManager("memory")
    memory = EpisodicMemory(sessions, "me", "s", "a")
    for number in range(3):
        await memory.append("user", str(number), metadata={"number": number})
    assert [message.content for message in await memory.get_messages(limit=1, since=1)] == ["2"]
    assert [message.content for message in await memory.get_recent(max_tokens=2)] == ["1", "2"]
    await sessions.close()
    history = HistoryList(
        messages=[], session_manager=None, history_key="", run_id="r", root_run_id="r", agent_name="a"
    )
    history.append(ChatMessage("user", "x"))
    history.flush()
    assert history[0].run_id == "r"
    working = WorkingMemory()
    working.set("k", 1)
    working.update({"l": 2})
    assert (working.get("k"), working.to_dict()) == (1, {"k": 1, "l": 2})
    working.clear()
    assert working.to_dict() == {}


async def test_recovery_in_a_process() -> None:
    recovery = RecoveryOrchestrator()
    recovery.register_handler("model.provider", lambda context: Recovery.answer("later"))
    context = ErrorContext(Unavailable("down", kind="model.provider"))
    assert (await recovery.handle_error(context)).substitute == "later"
    assert ErrorSeverity.LOW < ErrorSeverity.HIGH


def test_local_and_served_long_term_memory_have_the_same_signatures() -> None:
    for name in ("store", "query", "delete", "summarize_recent", "retrieve_context", "feedback", "forget", "stats"):
        local, served = (inspect.signature(getattr(kind, name)) for kind in (LongTermMemory, LongTermMemoryClient))
        parameters = {key: value for key, value in served.parameters.items() if key != "timeout"}
        assert parameters == dict(local.parameters), name
    query = inspect.signature(LongTermMemory.query).parameters
    assert list(query)[:4] == ["self", "query_text", "limit", "threshold"]
    assert (query["limit"].default, query["threshold"].default) == (5, None)
    assert inspect.signature(LongTermMemory.summarize_recent).parameters["max_memories"].default == 100


def test_plans_have_the_names_that_users_look_for() -> None:
    fields = ["id", "description", "expected_output", "tool_name", "tool_args", "dependencies", "status", "result"]
    assert list(inspect.signature(SubTask).parameters)[:8] == fields
    assert list(inspect.signature(Task).parameters) == ["id", "original_query", "goal", "subtasks", "context"]
    assert list(inspect.signature(Plan).parameters) == ["task_id", "subtask_dag", "execution_order"]
    for function in (create_plan, Planner.create_plan):
        names = [name for name in inspect.signature(function).parameters if name != "self"]
        assert names[:3] == ["goal", "available_tools", "initial_context"]
    assert list(inspect.signature(Agent.run_task).parameters)[1] == "query"
