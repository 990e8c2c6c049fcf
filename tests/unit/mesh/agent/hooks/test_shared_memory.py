"""Shared memory among agents of one process: what is pulled, inserted and published."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from archon_mesh.agent import Agent
from archon_mesh.core.memory_graph import PropagationPolicy, SharedMemoryGraph
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ModelReply, ScriptedModel
from archon_mesh.tools import tool
from tests.fixtures.scripted_model import says


def graph(*edges: tuple[str, str]) -> SharedMemoryGraph:
    memory_graph = SharedMemoryGraph()
    for edge in edges:
        for node in edge:
            if not memory_graph.has_node(node):
                memory_graph.add_agent(node)
        memory_graph.add_edge(*edge)
    return memory_graph


def new_agent(name: str, model: ScriptedModel, memory: Any, **more: Any) -> Agent:
    return Agent(name, system_prompt=f"You are {name}.", model=model, memory_graph=memory, **more)


def asks(key: str) -> ModelReply:
    return says("", ToolCall("c", key, '{"task": "go"}'))


def systems(model: ScriptedModel, request: int = 0) -> list[str]:
    return [message.content for message in model.requests[request].messages if message.role == "system"]


async def test_upstream_answers_follow_the_prompt_in_dependency_order() -> None:
    memory = graph(("a", "b"), ("a", "c"), ("b", "c"))
    memory.publish("b", "from b")
    memory.publish("a", "from a")
    model = ScriptedModel([says("done")])
    await new_agent("c", model, memory).run_async("?")
    assert [(message.role, message.content) for message in model.requests[0].messages] == [
        ("system", "You are c."),
        ("system", "Shared context from a:\nfrom a"),
        ("system", "Shared context from b:\nfrom b"),
        ("user", "?"),
    ]
    injected = model.requests[0].messages[1].metadata
    assert (injected["shared_memory"], injected["shared_memory_source"]) == (True, "a")


async def test_each_call_pulls_and_gets_only_the_newest_version() -> None:
    memory = graph(("a", "b"))
    memory.publish("a", "old")

    @tool
    def publish() -> str:
        """Publishes."""
        memory.publish("a", "new")
        return "ok"

    model = ScriptedModel([says("", ToolCall("c", "publish", "{}")), says("x"), says("y")])
    agent = new_agent("b", model, memory, tools=[publish])
    agent.on("after_model").when(lambda hook: hook.value == "x").handle("retry")
    await agent.run_async("?")
    assert [systems(model, n)[1:] for n in range(3)] == [
        ["Shared context from a:\nold"],
        ["Shared context from a:\nnew"],
        ["Shared context from a:\nnew"],
    ]
    assert not [message for message in agent.history if message.role == "system"], (
        "shared context does not enter the history"
    )


async def test_only_the_final_answer_after_hooks_is_published() -> None:
    memory = graph(("a", "b"))
    look = tool(name="look")(lambda: "a secret")
    agent = new_agent(
        "a", ScriptedModel([says("thinking", ToolCall("c", "look", "{}")), says("draft")]), memory, tools=[look]
    )
    agent.on("query_end").handle("continue", "final")
    assert await agent.run_async("?") == "final"
    (item,) = memory.pull_for("b")
    assert (item.content, item.version) == ("final", 1)
    blank = new_agent("a", ScriptedModel([says("draft")]), memory)
    blank.on("before_final_response").handle("continue", "  ")
    await blank.run_async("?")
    assert memory.pull_for("b")[0].version == 1, "an empty answer is not published"


async def test_coordinator_receives_the_current_edges_in_each_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    memory = graph(("a", "b"))
    subs = {key: new_agent(key, ScriptedModel(), memory) for key in ("b", "a")} | {
        "x": Agent("x", model=ScriptedModel())
    }
    model = ScriptedModel([says("one"), says("two")])
    with caplog.at_level(logging.WARNING):
        lead = Agent("lead", system_prompt="Lead.", model=model, sub_agents=subs, memory_graph=memory)
    await lead.run_async("?")
    assert systems(model)[1].splitlines() == [
        "You are coordinating sub-agents with dependencies.",
        "",
        "Dependency order (call upstream before downstream):",
        "  a -> b",
        "",
        "Recommended execution order: a, b",
        "",
        "Guideline: do not call an agent before its prerequisites have been executed.",
    ]
    memory.add_agent("lonely")
    await lead.run_async("?")
    assert len(systems(model, 1)) == 2
    assert caplog.text.count("is not in the shared memory graph") == 1, "a missing node is one warning"


async def test_awareness_names_agents_as_the_tools_are_named() -> None:
    memory = graph(("researcher", "writer"))
    subs = {
        "find": new_agent("researcher", ScriptedModel(), memory),
        "write": new_agent("writer", ScriptedModel(), memory),
    }
    model = ScriptedModel([says("done")])
    await Agent("lead", system_prompt="Lead.", model=model, sub_agents=subs, memory_graph=memory).run_async("?")
    text = systems(model)[1]
    assert "  find -> write\n" in text
    assert "Recommended execution order: find, write" in text
    assert {tool.name for tool in model.requests[0].tools} == {"find", "write"}
    assert "researcher" not in text


class Counted:
    """A graph that records its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def record(*args: Any, **kwargs: Any) -> list[Any]:
            self.calls.append(name)
            return []

        return record


async def test_graph_is_called_only_as_needed_and_only_if_there_is_one() -> None:
    counted = Counted()
    plain = Agent("a", model=ScriptedModel([says("1")]))
    assert len(plain.hook_runner()._by_event) == 0, "no hooks are registered"
    await plain.run_async("?")
    assert counted.calls == []
    await Agent("a", model=ScriptedModel([says("1")]), memory_graph=counted).run_async("?")
    assert counted.calls == ["pull_for", "publish"]


async def test_stateful_sub_agent_sees_only_the_newest_upstream_answer() -> None:
    memory = graph(("a", "b"))
    model = ScriptedModel([says("b1"), says("b2")])
    upstream = new_agent("a", ScriptedModel([says("a1"), says("a2")]), memory)
    lead_model = ScriptedModel([*(asks(key) for key in ("a", "b", "a", "b")), says("done")])
    lead = Agent("lead", model=lead_model, sub_agents={"a": upstream, "b": new_agent("b", model, memory)})
    await lead.run_async("?")
    assert [systems(model, n)[1:] for n in range(2)] == [
        ["Shared context from a:\na1"],
        ["Shared context from a:\na2"],
    ]


async def test_served_graph_is_awaited(caplog: pytest.LogCaptureFixture) -> None:
    memory = graph(("a", "b"))
    memory.publish("a", "from afar")

    class Served:
        async def pull_for(self, node: str) -> Any:
            return memory.pull_for(node)

        async def publish(self, node: str, content: str) -> Any:
            return memory.publish(node, content)

        async def has_node(self, node: str) -> bool:
            return memory.has_node(node)

        async def get_edges_for_nodes(self, nodes: list[str]) -> Any:
            return memory.get_edges_for_nodes(nodes)

        async def get_topological_order(self, nodes: list[str]) -> Any:
            return memory.get_topological_order(nodes)

    model = ScriptedModel([says("got it")])
    await new_agent("b", model, Served()).run_async("?")
    assert systems(model)[1] == "Shared context from a:\nfrom afar"
    assert memory.to_dict()["items"][-1]["content"] == "got it"
    missing = Agent("lead", model=ScriptedModel([says("1"), says("2")]), memory_graph=Served())
    missing.register_agent(Agent("nowhere"))
    for _ in range(2):
        await missing.run_async("?")
    assert caplog.text.count("sub-agent nowhere is not in the shared memory graph") == 1


async def test_all_ancestors_are_pulled_if_configured() -> None:
    memory = graph(("a", "b"), ("b", "c"))
    memory.publish("a", "far")
    for deep, count in ((False, 1), (True, 2)):
        model = ScriptedModel([says("x")])
        await new_agent("c", model, memory, all_ancestors=deep).run_async("?")
        assert len(systems(model)) == count


async def test_all_ancestors_come_in_dependency_order() -> None:
    memory = graph(("far", "near"), ("near", "goal"), ("zeal", "goal"), ("far", "late"), ("late", "goal"))
    sources = memory.get_topological_order(["far", "near", "late", "zeal"])
    for source in reversed(sources):
        memory.publish(source, f"by {source}")

    @tool
    def publish() -> str:
        """Publishes what was not there before."""
        memory.add_edge("first", "far")
        memory.publish("first", "by first")
        return "ok"

    model = ScriptedModel([says("", ToolCall("c", "publish", "{}")), says("x")])
    await new_agent("goal", model, memory, all_ancestors=True, tools=[publish]).run_async("?")
    assert systems(model)[1:] == [f"Shared context from {source}:\nby {source}" for source in sources]
    ordered = memory.get_topological_order(["first", *sources])
    assert systems(model, 1)[1:] == [f"Shared context from {source}:\nby {source}" for source in ordered]
    assert sources.index("far") < sources.index("near")


async def test_each_edge_carries_what_its_policy_lets_through() -> None:
    memory = SharedMemoryGraph()
    for policy in PropagationPolicy:
        memory.add_edge("a", f"reads_{policy}", policy)
    look = tool(name="look")(lambda place: f"a secret in the {place}")
    calls = ScriptedModel(
        [
            says("I look.", ToolCall("c1", "look", '{"place": "attic"}'), ToolCall("c2", "look", '{"place": "den"}')),
            says("Found two."),
            says("Still two."),
        ],
    )
    author = new_agent("a", calls, memory, tools=[look])

    async def seen() -> list[str]:
        texts = []
        for policy in PropagationPolicy:
            model = ScriptedModel([says("ok")])
            await new_agent(f"reads_{policy}", model, memory).run_async("?")
            texts += systems(model)[1:]
        return [text.removeprefix("Shared context from a:\n") for text in texts]

    await author.run_async("What is there?")
    results = (
        'Result of look {"place": "attic"}:\na secret in the attic\n\n'
        'Result of look {"place": "den"}:\na secret in the den\n\nAnswer:\nFound two.'
    )
    history = (
        "user: What is there?\nassistant: I look.\n"
        'assistant calls look: {"place": "attic"}\nassistant calls look: {"place": "den"}\n'
        "tool: a secret in the attic\ntool: a secret in the den\nassistant: Found two."
    )
    assert await seen() == ["Found two.", results, history]
    author.on("query_end").handle("continue", "Two, as before.")
    await author.run_async("And now?")
    assert await seen() == [
        "Two, as before.",
        "Two, as before.",
        f"{history}\nuser: And now?\nassistant: Still two.\nassistant: Two, as before.",
    ], "without a tool call the answer is all that there is; a replaced answer is the last word"


async def test_by_default_only_the_final_answer_is_published() -> None:
    memory = graph(("a", "b"))
    look = tool(name="look")(lambda: "a secret")
    model = ScriptedModel([says("", ToolCall("c", "look", "{}")), says("done")])
    await new_agent("a", model, memory, tools=[look]).run_async("?")
    assert [(item["content"], item["policy"]) for item in memory.to_dict()["items"]] == [
        ("done", "final_response_only")
    ]
