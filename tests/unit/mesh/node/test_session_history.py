"""What a turn of a conversation keeps."""

from __future__ import annotations

from archon_mesh.core.messages import PROVIDER_STATE, ChatMessage, ToolCall
from archon_mesh.node.session_history import TurnRecorder

THINKING = {PROVIDER_STATE: {"provider": "anthropic", "content": [{"type": "thinking", "thinking": "x" * 100_000}]}}


def test_a_turn_keeps_its_tool_calls_without_the_thinking_between() -> None:
    recorder = TurnRecorder()
    calls = (ToolCall("1", "add", "{}"),)
    messages = [
        ChatMessage("user", "2 + 3?"),
        ChatMessage("assistant", tool_calls=calls, metadata=THINKING),
        ChatMessage("tool", "5", tool_call_id="1"),
        ChatMessage("assistant", "It is 5.", metadata=THINKING),
    ]
    recorder.appended("key", "run", messages)
    stored = recorder.new_messages()
    assert stored is not None
    assert [message.role for message in stored] == ["user", "assistant", "tool", "assistant"]
    assert not any("thinking" in text for message in stored for text in message.metadata.values())
    assert stored[-1].metadata == {}
