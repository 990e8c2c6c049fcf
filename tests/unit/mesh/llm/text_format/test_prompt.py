"""How a request is written in the text format."""

from __future__ import annotations

import json

from archon_mesh.core.messages import ORIGIN, ChatMessage, ToolCall
from archon_mesh.llm import ModelRequest, ToolSpec
from archon_mesh.llm.text_format.prompt import REPAIR, RULES, repair_of, to_text

SCHEMA = {"type": "object", "properties": {"stra\u00dfe": {"type": "string"}}}
SPEC = ToolSpec("find", "Findet.", SCHEMA)


def test_rules_and_tools_follow_the_system_prompt() -> None:
    request = to_text(ModelRequest([ChatMessage("system", "You help."), ChatMessage("user", "?")], [SPEC, SPEC]))
    line = f"- find: Findet. {json.dumps(SCHEMA, ensure_ascii=False)}"
    assert request.messages[0] == ChatMessage("system", f"You help.\n\n{RULES}\n{line}\n{line}")
    assert request.messages[1:] == (ChatMessage("user", "?"),)
    assert request.tools == ()


def test_without_a_system_prompt_the_rules_are_one() -> None:
    line = f"- find: Findet. {json.dumps(SCHEMA, ensure_ascii=False)}"
    rules = ChatMessage("system", f"{RULES}\n{line}", metadata={ORIGIN: "note"})
    assert to_text(ModelRequest([ChatMessage("user", "?")], [SPEC])).messages == (rules, ChatMessage("user", "?"))
    assert to_text(ModelRequest([], [SPEC])).messages == (rules,)


def test_without_tools_there_are_no_rules() -> None:
    messages = (ChatMessage("user", "?"), ChatMessage("assistant", "!"))
    assert to_text(ModelRequest(messages)).messages == messages


def test_calls_and_results_are_written_as_text() -> None:
    calls = (ToolCall("1", "find", '{"a": 1}'), ToolCall("2", "now", ""))
    messages = [
        ChatMessage("assistant", "I look.", tool_calls=calls),
        ChatMessage("tool", "one", tool_call_id="1"),
        ChatMessage("tool", "two", tool_call_id="2"),
        ChatMessage("assistant", "", tool_calls=calls[1:]),
    ]
    assert to_text(ModelRequest(messages)).messages == (
        ChatMessage(
            "assistant",
            'Thought: I look.\nAction: {"tool": "find", "arguments": {"a": 1}}\nAction: {"tool": "now", "arguments": {}}',
        ),
        ChatMessage("user", "Observation: one\nObservation: two", metadata={ORIGIN: "tool_result", "tool": "now"}),
        ChatMessage("assistant", 'Action: {"tool": "now", "arguments": {}}'),
    )


def test_a_reply_that_cannot_be_read_is_quoted() -> None:
    request = ModelRequest([ChatMessage("user", "?")])
    assert repair_of(request, "what").messages[1:] == (
        ChatMessage("assistant", "what", metadata={ORIGIN: "step"}),
        ChatMessage("user", REPAIR, metadata={ORIGIN: "note"}),
    )
    assert repair_of(request, "").messages[1].content == "(an empty reply)"
