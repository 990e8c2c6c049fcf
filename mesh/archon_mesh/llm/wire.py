"""Converts messages, tools and tool calls to the JSON of the chat completions API; records use the same form."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm.base import ToolSpec


def message_to_wire(message: ChatMessage) -> dict[str, Any]:
    """Converts a message, without its `metadata`, which is never sent."""
    wire: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.name:
        wire["name"] = message.name
    if message.tool_call_id:
        wire["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        wire["content"] = message.content or None
        wire["tool_calls"] = [call_to_wire(call) for call in message.tool_calls]
    return wire


def call_to_wire(call: ToolCall) -> dict[str, Any]:
    """Converts a tool call; the arguments stay as the model wrote them."""
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_json}}


def sendable(call: ToolCall) -> ToolCall:
    """Returns a call whose arguments are a JSON object, as servers require of what they get back: arguments that the
    model wrote otherwise are its value `invalid_json`, none are an empty object."""
    if not call.arguments_json.strip():
        return replace(call, arguments_json="{}")
    try:
        if isinstance(json.loads(call.arguments_json), dict):
            return call
    except (ValueError, RecursionError):
        pass
    return replace(call, arguments_json=json.dumps({"invalid_json": call.arguments_json}, ensure_ascii=False))


def tool_to_wire(tool: ToolSpec) -> dict[str, Any]:
    """Converts a tool."""
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters_schema),
    }
    return {"type": "function", "function": function}
