"""Where the messages of a recorded request come from."""

from __future__ import annotations

import json
from typing import Any

from archon.agent import TaskContext
from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon_mesh.agent import Agent
from archon_mesh.core.compaction import summary
from archon_mesh.core.messages import ORIGIN, ChatMessage, ToolCall
from archon_mesh.llm import ScriptedModel
from archon_mesh.node import agent_handler
from archon_mesh.node.message_origins import message_origins
from archon_mesh.tools import FunctionTool
from tests.fixtures.fake_link import FakeLink


def kinds(*messages: ChatMessage) -> list[Any]:
    return [origin["kind"] for origin in message_origins(messages, "You cook.", "run-2")]


def test_messages_of_this_run_and_of_earlier_ones_are_told_apart() -> None:
    call = ToolCall("c1", "oven", "{}")
    assert kinds(
        ChatMessage("system", "You cook."),
        ChatMessage("user", "Lunch?", run_id="run-1"),
        ChatMessage("tool", "hot", tool_call_id="c0", run_id="run-1"),
        ChatMessage("assistant", "Soup.", run_id="run-1"),
        ChatMessage("user", "Dinner?", run_id="run-2"),
        ChatMessage("assistant", "", (call,), run_id="run-2"),
        ChatMessage("tool", "hot", tool_call_id="c1", run_id="run-2"),
    ) == ["system_prompt", *["session_history"] * 3, "input", "step", "tool_result"]


def test_what_the_framework_adds_is_told_by_its_metadata() -> None:
    shared = {"shared_memory": True, "shared_memory_source": "baker", "shared_memory_version": 3}
    messages = [
        ChatMessage("system", "You cook. And you bake."),
        ChatMessage("system", "x", metadata=shared),
        ChatMessage("system", "x", metadata={"orchestrator_awareness": True}),
        ChatMessage("system", "x", metadata={ORIGIN: "memory"}),
        ChatMessage("system", "x", metadata={ORIGIN: "note"}),
        summary("x"),
        ChatMessage("system", "x", metadata={ORIGIN: "unheard of"}),
        ChatMessage("user", "x"),
    ]
    assert message_origins(messages, "You cook.", "run-2") == [
        {"kind": "system_prompt"},
        {"kind": "shared_context", "role": "baker", "version": 3},
        {"kind": "awareness"},
        {"kind": "memory"},
        {"kind": "note"},
        {"kind": "summary"},
        {"kind": "hook"},
        {"kind": "hook"},
    ]


def test_a_result_names_its_tool_and_an_agent_may_have_no_prompt() -> None:
    messages = [
        ChatMessage("assistant", "", (ToolCall("c1", "oven", "{}"),), run_id="r"),
        ChatMessage("tool", "hot", tool_call_id="c1", run_id="r"),
        ChatMessage("tool", "cold", tool_call_id="c9", run_id="r"),
    ]
    assert [origin.get("tool") for origin in message_origins(messages, "", "r")] == [None, "oven", ""]
    assert message_origins([ChatMessage("system", "x")], "", "r") == [{"kind": "hook"}]


async def test_requests_of_a_task_with_a_history_record_their_origins() -> None:
    assigned = agent_pb2.AssignTask(input=[common_pb2.Part(text="Dinner?")], conversation_id="s")
    for role, text in (("user", "Lunch?"), ("assistant", "Soup.")):
        assigned.history.add(role=role, parts=[common_pb2.Part(text=text)])
    item = assigned.context.add(parts=[common_pb2.Part(text="Bread.")])
    item.ref.role, item.ref.version = "baker", 4
    task = TaskContext.from_proto(
        common_pb2.TaskRef(task_id="t", attempt=1), assigned, FakeLink([]), role="cook", stateful=True
    )
    model = ScriptedModel([ToolCall("c1", "oven", "{}"), "Stew."])
    oven = FunctionTool(_heat, name="oven")
    agent = Agent("cook", system_prompt="You cook.", model=model, tools=[oven], max_iterations=2)
    await agent_handler(agent)(task)
    requests = [json.loads(record.request_json) for record in task.take_records() if record.target != "oven"]
    assert [origin["kind"] for origin in requests[1]["origins"]] == [
        "system_prompt",
        "shared_context",
        "session_history",
        "session_history",
        "input",
        "step",
        "tool_result",
        "note",
    ]
    assert requests[1]["origins"][1] == {"kind": "shared_context", "role": "baker", "version": 4}
    assert requests[1]["origins"][6] == {"kind": "tool_result", "tool": "oven"}
    assert [len(request["messages"]) for request in requests] == [len(request["origins"]) for request in requests]


def _heat() -> str:
    """Heats."""
    return "hot"
