"""Chat messages as stored JSON, with the field names of OpenAI's API plus the framework's own."""

from __future__ import annotations

import json
from typing import Any

from archon.errors import DataLoss
from archon_mesh.core.media import media_from_json, media_to_json
from archon_mesh.core.messages import ChatMessage, ToolCall


def message_to_json(message: ChatMessage) -> str:
    """Encodes a message without its run id, which has a column of its own. Metadata that is not JSON becomes text."""
    data: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        data["tool_calls"] = [[call.id, call.name, call.arguments_json] for call in message.tool_calls]
    if message.tool_call_id is not None:
        data["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        data["name"] = message.name
    if message.files:
        data["files"] = [media_to_json(file) for file in message.files]
    if message.metadata:
        data["metadata"] = dict(message.metadata)
    return json.dumps(data, ensure_ascii=True, separators=(",", ":"), default=str)


def message_from_json(data: str, run_id: str) -> ChatMessage:
    """Decodes a message. Raises DataLoss if it is malformed."""
    try:
        fields = json.loads(data)
        return ChatMessage(
            fields["role"],
            fields["content"],
            tuple(ToolCall(*call) for call in fields.get("tool_calls", ())),
            fields.get("tool_call_id"),
            fields.get("name"),
            fields.get("metadata", {}),
            run_id,
            tuple(media_from_json(file) for file in fields.get("files", ())),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataLoss(f"malformed message in a session: {error}") from error
