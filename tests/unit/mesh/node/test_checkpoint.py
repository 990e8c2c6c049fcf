"""Checkpoints of a coordinator."""

from __future__ import annotations

from archon_mesh.core.media import Media
from archon_mesh.core.messages import PROVIDER_STATE, ChatMessage, ToolCall
from archon_mesh.node.checkpoint import MAX_CHECKPOINT, decode_checkpoint, encode_checkpoint

CALLS = (ToolCall("1", "designer", "{}"),)


def with_state(state: object) -> list[ChatMessage]:
    return [ChatMessage("assistant", "so", tool_calls=CALLS, metadata={PROVIDER_STATE: state, "other": object()})]


def test_a_checkpoint_keeps_what_the_client_must_send_back() -> None:
    [message] = decode_checkpoint(encode_checkpoint(with_state({"content": [{"signature": "abc"}]})))
    assert message.metadata == {PROVIDER_STATE: {"content": [{"signature": "abc"}]}}
    assert message.tool_calls == CALLS


def test_a_checkpoint_too_large_with_that_is_made_without() -> None:
    [message] = decode_checkpoint(encode_checkpoint(with_state({"thinking": "x" * MAX_CHECKPOINT})))
    assert (message.content, message.tool_calls, message.metadata) == ("so", CALLS, {})


def with_file(size: int) -> list[ChatMessage]:
    file = Media(b"1" * size, "image/png")
    return [ChatMessage("tool", file.label, tool_call_id="0", files=[file]), *with_state({"content": ["signed"]})]


def test_a_checkpoint_keeps_files_of_results() -> None:
    messages = decode_checkpoint(encode_checkpoint(with_file(1_000)))
    assert messages[0] == with_file(1_000)[0]


def test_a_checkpoint_too_large_with_files_has_their_labels() -> None:
    result, reply = decode_checkpoint(encode_checkpoint(with_file(MAX_CHECKPOINT)))
    assert (result.content, result.files) == (f"[image/png, {MAX_CHECKPOINT:,} bytes]", ())
    assert reply.metadata == {PROVIDER_STATE: {"content": ["signed"]}}, "files are left out before signatures"
