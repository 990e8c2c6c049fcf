"""Checkpoints of a coordinator: the messages since its query, stored with each delegation.

A later attempt resumes from the checkpoint instead of repeating the model calls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from archon_mesh.core.messages import PROVIDER_STATE, ChatMessage, ToolCall

MAX_CHECKPOINT: Final = 512 * 1024
"""Bytes. Longer messages are not stored, and a later attempt resumes from the last checkpoint that exists."""

_FORMAT: Final = "archon-conversation/1"


def encode_checkpoint(messages: Sequence[ChatMessage]) -> bytes:
    """Encodes model replies and tool results; the tool calls of the last reply are not executed yet.

    What clients of models keep with a message is left out if the result would exceed MAX_CHECKPOINT; without it, too,
    the result is empty if it is larger.
    """
    checkpoint = _encode(messages, with_state=True)
    if len(checkpoint) > MAX_CHECKPOINT:
        checkpoint = _encode(messages, with_state=False)
    return checkpoint if len(checkpoint) <= MAX_CHECKPOINT else b""


def _encode(messages: Sequence[ChatMessage], *, with_state: bool) -> bytes:
    entries = [
        {"role": message.role, "content": message.content, "call": message.tool_call_id}
        | (
            {"calls": [[call.id, call.name, call.arguments_json] for call in message.tool_calls]}
            if message.tool_calls
            else {}
        )
        | ({"state": state} if with_state and (state := message.metadata.get(PROVIDER_STATE)) else {})
        for message in messages
    ]
    return json.dumps({"form": _FORMAT, "messages": entries}).encode()


def decode_checkpoint(checkpoint: bytes) -> list[ChatMessage]:
    """Decodes a checkpoint. Returns an empty list if it is empty, or of another format: the attempt starts anew."""
    try:
        data = json.loads(checkpoint)
        messages = [_decode_message(entry) for entry in data["messages"]] if data["form"] == _FORMAT else []
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return []
    return messages if messages and messages[-1].tool_calls else []


def _decode_message(entry: Mapping[str, Any]) -> ChatMessage:
    calls = tuple(
        ToolCall(name=name, id=call_id, arguments_json=arguments) for call_id, name, arguments in entry.get("calls", ())
    )
    metadata = {PROVIDER_STATE: entry["state"]} if "state" in entry else {}
    return ChatMessage(entry["role"], entry["content"], tool_calls=calls, tool_call_id=entry["call"], metadata=metadata)
