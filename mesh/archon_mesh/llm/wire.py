"""Converts messages, files, tools and tool calls to the JSON of the chat completions API; records use the same form,
without the contents of files."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from archon.json_text import json_object
from archon_mesh.core.media import Media
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm.base import ToolSpec

_AUDIO: Final = {"mpeg": "mp3"}
"""Formats whose name in the API differs from the media type."""


def message_to_wire(message: ChatMessage) -> dict[str, Any]:
    """Converts a message without its files, and without its `metadata`, which is never sent."""
    wire: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.name:
        wire["name"] = message.name
    if message.tool_call_id:
        wire["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        wire["content"] = message.content or None
        wire["tool_calls"] = [call_to_wire(call) for call in message.tool_calls]
    return wire


def message_to_record(message: ChatMessage) -> dict[str, Any]:
    """Converts a message for a record: as it is sent, but of each file its type, name, size and hash only."""
    wire = message_to_wire(message)
    if message.files:
        wire["files"] = [_file_to_record(file) for file in message.files]
    return wire


def _file_to_record(file: Media) -> dict[str, Any]:
    place = {"url": file.url} if file.url else {"bytes": len(file.data)}
    named = {"name": file.name} if file.name else {}
    return {"media_type": file.media_type, **named, **place, "hash": file.digest}


def content_to_wire(message: ChatMessage) -> list[dict[str, Any]]:
    """Converts the content of a message with files: the text, unless it is empty, then the files."""
    text = [{"type": "text", "text": message.content}] if message.content.strip() else []
    return [*text, *map(_file_to_wire, message.files)]


def _file_to_wire(file: Media) -> dict[str, Any]:
    if file.kind == "image":
        return {"type": "image_url", "image_url": {"url": file.data_url}}
    if file.kind == "audio" and file.url:
        return {"type": "audio_url", "audio_url": {"url": file.url}}  # of vLLM: the API itself has none
    if file.kind == "audio":
        kind = file.true_type.partition("/")[2]
        return {"type": "input_audio", "input_audio": {"data": file.encoded, "format": _AUDIO.get(kind, kind)}}
    return {"type": "file", "file": {"filename": file_name(file), "file_data": file.data_url}}


def file_name(file: Media) -> str:
    """Returns the name of a file, which APIs require; one by its type if it has none."""
    return file.name or f"file.{file.true_type.rpartition('/')[2]}"


def call_to_wire(call: ToolCall) -> dict[str, Any]:
    """Converts a tool call; the arguments stay as the model wrote them."""
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_json}}


def sendable(call: ToolCall) -> ToolCall:
    """Returns a call whose arguments are a JSON object, as servers require: arguments that the model wrote otherwise
    are its value `invalid_json`, none are an empty object."""
    if not call.arguments_json.strip():
        return replace(call, arguments_json="{}")
    if json_object(call.arguments_json) is not None:
        return call
    return replace(call, arguments_json=json.dumps({"invalid_json": call.arguments_json}, ensure_ascii=False))


def tool_to_wire(tool: ToolSpec) -> dict[str, Any]:
    """Converts a tool."""
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters_schema),
    }
    return {"type": "function", "function": function}
