"""Conversations as text."""

from __future__ import annotations

from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.core.transcript import tool_results, transcript

LOOK, ADD = ToolCall("c1", "look", '{"at": "x"}'), ToolCall("c2", "add", '{"a": 1}')
TALK = [
    ChatMessage("user", "What is there?"),
    ChatMessage("assistant", "I look.", tool_calls=(LOOK, ADD)),
    ChatMessage("tool", "a tree", tool_call_id="c1"),
    ChatMessage("tool", "2", tool_call_id="c2"),
    ChatMessage("assistant", "", tool_calls=(ADD,)),
    ChatMessage("tool", "no caller"),
]


def test_each_message_and_each_call_has_a_paragraph() -> None:
    assert transcript(TALK) == (
        "user: What is there?\n"
        "assistant: I look.\n"
        'assistant calls look: {"at": "x"}\n'
        'assistant calls add: {"a": 1}\n'
        "tool: a tree\n"
        "tool: 2\n"
        'assistant calls add: {"a": 1}\n'
        "tool: no caller"
    )
    assert transcript([]) == ""


def test_results_stand_below_their_calls() -> None:
    assert tool_results(TALK) == (
        'Result of look {"at": "x"}:\na tree\n\nResult of add {"a": 1}:\n2\n\nResult of a tool:\nno caller'
    )
    assert tool_results(TALK[:2]) == ""
