"""A chat message as a store keeps it: JSON with the words of OpenAI's API, and what is the framework's own."""

from __future__ import annotations

import json
from typing import Any

from archon.errors import DataLoss
from archon_mesh.core.messages import ChatMessage, ToolCall


def message_to_json(message: ChatMessage) -> str:
    """Without the run that it came with, which stands in a column of its own. Metadata that is no JSON is text."""
    said: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        said["tool_calls"] = [[call.id, call.name, call.arguments_json] for call in message.tool_calls]
    if message.tool_call_id is not None:
        said["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        said["name"] = message.name
    if message.metadata:
        said["metadata"] = dict(message.metadata)
    return json.dumps(said, ensure_ascii=True, separators=(",", ":"), default=str)


def message_from_json(data: str, run_id: str) -> ChatMessage:
    """Raises DataLoss where it is none."""
    try:
        said = json.loads(data)
        return ChatMessage(
            said["role"],
            said["content"],
            tuple(ToolCall(*call) for call in said.get("tool_calls", ())),
            said.get("tool_call_id"),
            said.get("name"),
            said.get("metadata", {}),
            run_id,
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataLoss(f"a message of a session can't be read: {error}") from error
