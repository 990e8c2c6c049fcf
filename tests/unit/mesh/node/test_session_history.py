"""What a turn of a conversation keeps."""

from __future__ import annotations

from archon.agent import TaskContext
from archon.agent.history import history_to_proto, turn_to_proto
from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon_mesh.core.media import Media
from archon_mesh.core.messages import PROVIDER_STATE, ChatMessage, ToolCall
from archon_mesh.node.session_history import MAX_FILE_CHARS, MAX_TURN_CHARS, TurnRecorder, load_history
from tests.fixtures.fake_link import FakeLink

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


def stored(*messages: ChatMessage) -> list[ChatMessage]:
    """Returns the messages of a turn as the next task of the session gets them."""
    recorder = TurnRecorder()
    recorder.appended("key", "run", list(messages))
    history = recorder.new_messages()
    assert history is not None
    assigned = agent_pb2.AssignTask(history=[history_to_proto(message) for message in history])
    task = TaskContext.from_proto(common_pb2.TaskRef(task_id="t", attempt=1), assigned, FakeLink([]), role="a")
    return list(load_history(task, TurnRecorder(), "a"))


def test_a_turn_keeps_its_files() -> None:
    query = ChatMessage("user", "What is this?", files=[Media(b"1" * 1_000, "image/png", name="a.png")])
    assert stored(query, ChatMessage("assistant", "a dot")) == [query, ChatMessage("assistant", "a dot")]


def test_a_turn_too_large_with_its_files_keeps_their_labels() -> None:
    file = Media(b"1" * MAX_FILE_CHARS, "image/png", name="a.png")
    answer = ChatMessage("assistant", "a dot")
    assert stored(ChatMessage("user", "What?", files=[file]), answer) == [
        ChatMessage("user", f"What?\n{file.label}"),
        answer,
    ]
    calls = ChatMessage("assistant", "y" * MAX_TURN_CHARS, tool_calls=(ToolCall("1", "add", "{}"),))
    result = ChatMessage("tool", "5", tool_call_id="1")
    assert stored(ChatMessage("user", "What?", files=[file]), calls, result, answer) == [
        ChatMessage("user", f"What?\n{file.label}"),
        answer,
    ], "without its steps, too"


def test_the_largest_turn_with_files_fits_a_frame() -> None:
    file = Media(b"1" * (MAX_FILE_CHARS // 4 * 3 - 1_000), "image/png")
    recorder = TurnRecorder()
    text = "\U0001f600" * (MAX_TURN_CHARS - 1_000)
    recorder.appended("k", "r", [ChatMessage("user", text, files=[file]), ChatMessage("assistant", "a")])
    turn = recorder.new_messages()
    assert turn is not None and "files" in next(iter(turn[0].metadata.values()))
    turn_to_proto(turn)
