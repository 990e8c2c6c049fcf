"""Checkpoints of a coordinator."""

from __future__ import annotations

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
