"""Converts requests to the JSON of OpenAI's responses API: a list of items instead of messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from archon_mesh.core.media import Media
from archon_mesh.core.messages import PROVIDER_STATE, ChatMessage
from archon_mesh.llm.base import ModelRequest, ToolSpec
from archon_mesh.llm.wire import file_name

PROVIDER: Final = "openai-responses"
"""The value of `provider` in the provider state of replies."""

Item = dict[str, Any]


def request_to_wire(request: ModelRequest, *, reasoning: bool) -> dict[str, Any]:
    """Returns the arguments `input` and `tools`.

    With `reasoning`, earlier replies are sent with the reasoning that they had.
    """
    items = [item for message in request.messages for item in _items(message, reasoning=reasoning)]
    arguments: dict[str, Any] = {"input": items}
    if request.tools:
        arguments["tools"] = [_tool_to_wire(tool) for tool in request.tools]
    return arguments


def has_reasoning(request: ModelRequest) -> bool:
    """Whether a reply in the messages has reasoning that is sent back."""
    return any(item["type"] == "reasoning" for message in request.messages for item in _state_items(message))


def _items(message: ChatMessage, *, reasoning: bool) -> list[Item]:
    if message.role == "tool":
        return [{"type": "function_call_output", "call_id": message.tool_call_id or "", "output": _content(message)}]
    if message.role != "assistant":
        return [{"role": message.role, "content": _content(message)}]
    calls = {
        call.id: {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments_json}
        for call in message.tool_calls
    }
    kept = _state_items(message)
    # The items go back in their order, unless a hook has changed the model's text.
    said = "".join(item["content"] for item in kept if item["type"] == "message")
    called = [item["call_id"] for item in kept if item["type"] == "function_call"]
    if kept and said == message.content and called == list(calls):
        return [
            calls[item["call_id"]] if item["type"] == "function_call" else dict(item)
            for item in kept
            if reasoning or item["type"] != "reasoning"
        ]
    text: Sequence[Item] = [{"role": "assistant", "content": message.content}] if message.content else []
    return [*text, *calls.values()]


def _content(message: ChatMessage) -> str | list[Item]:
    """Returns the text of a message; with files, the text unless it is empty, then the files."""
    if not message.files:
        return message.content
    text = [{"type": "input_text", "text": message.content}] if message.content.strip() else []
    return [*text, *map(_file, message.files)]


def _file(file: Media) -> Item:
    if file.kind == "image":
        return {"type": "input_image", "image_url": file.data_url, "detail": "auto"}
    if file.url:  # a name beside a URL is refused
        return {"type": "input_file", "file_url": file.url}
    return {"type": "input_file", "filename": file_name(file), "file_data": file.data_url}


def _state_items(message: ChatMessage) -> list[Item]:
    state = message.metadata.get(PROVIDER_STATE)
    if not isinstance(state, Mapping) or state.get("provider") != PROVIDER:
        return []
    return list(state["items"])


def _tool_to_wire(tool: ToolSpec) -> dict[str, Any]:
    # Strict schemas are the API's default, and only a part of JSON Schema is one.
    parameters = dict(tool.parameters_schema)
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": parameters,
        "strict": False,
    }
