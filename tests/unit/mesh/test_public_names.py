"""Names that users look for, and the classes that they name."""

from __future__ import annotations

import pickle
import subprocess
import sys

import networkx as nx
import pytest

from archon.errors import GraphCycle, InvalidArgument
from archon_mesh.agent import Agent, AgentConfig, HookContext, Middleware
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.tools import tool
from tests.fixtures.scripted_model import ScriptedModel, says


def in_new_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


async def test_agent_takes_a_config_whose_fields_were_set() -> None:
    class Shout(Middleware):
        def query_end(self, hook: HookContext) -> object:
            hook.value = hook.value.upper()
            return None

    config = AgentConfig("poet", model=ScriptedModel(says("quiet"), says("quiet")))
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
    agent = Agent("a", model=ScriptedModel(says("I look", ToolCall("c", "look", "{}")), says("done")), tools=[look])

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


def test_graph_is_exported_beside_the_agent() -> None:
    code = (
        "import sys, archon_mesh.agent as agent\n"
        "print('networkx' in sys.modules)\n"
        "graph = agent.SharedMemoryGraph()\n"
        "print(graph.publish('a', 'x').version)"
    )
    assert in_new_process(code).split() == ["False", "1"]
