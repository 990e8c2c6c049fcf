"""Converts requests to the JSON of Anthropic's Messages API.

The API knows system prompts at the beginning only, messages of the user and the assistant in turns, results of tools in
the first blocks of the user's next message, and no empty texts. Histories of agents are made to fit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, Final

from archon.json_text import json_object
from archon_mesh.core.media import Media
from archon_mesh.core.messages import PROVIDER_STATE, ChatMessage, ToolCall
from archon_mesh.llm.base import ModelRequest, ToolSpec

PROVIDER: Final = "anthropic"
"""The value of `provider` in the provider state of replies."""

MAX_TITLE: Final = 200
"""Characters of the title of a document."""

_CONTINUE: Final = "Continue."
"""The user's text where the API requires the user to say something."""

_REJECTED_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")
Block = dict[str, Any]


def request_to_wire(request: ModelRequest, *, thinking: bool) -> dict[str, Any]:
    """Returns the arguments `system`, `messages`, `tools` and `tool_choice`, as far as they are needed.

    With `thinking`, earlier replies are sent with the thinking that they had.
    """
    prompt = list(takewhile(lambda message: message.role == "system", request.messages))
    arguments: dict[str, Any] = {"messages": _turns(request.messages[len(prompt) :], thinking=thinking)}
    if system := [{"type": "text", "text": message.content} for message in prompt if message.content.strip()]:
        arguments["system"] = system
    if request.tools:
        arguments["tools"] = [_tool_to_wire(tool) for tool in request.tools]
    elif called := sorted({call.name for message in request.messages for call in message.tool_calls}):
        # Messages with tool calls must come with tools, also if no further call is wanted.
        arguments["tools"] = [_tool_to_wire(ToolSpec(name, "Not available any more.", {})) for name in called]
        arguments["tool_choice"] = {"type": "none"}
    # The tool of a typed answer is no reason for a next request.
    if len(request.tools) > (request.output_schema is not None):
        _mark_for_cache(arguments)
    return arguments


def _mark_for_cache(arguments: dict[str, Any]) -> None:
    """Marks the parts that the API caches for the next request of a run
    (https://docs.claude.com/en/docs/build-with-claude/prompt-caching): tools and own prompt, shared context, and the
    conversation up to the last result of a tool. Notes of the loop come behind it. A request without tools has no next
    one, and writing to the cache costs a quarter more."""
    system = arguments.get("system", [])
    marked = [system[0], system[-1]] if system else [arguments["tools"][-1]]
    last = arguments["messages"][-1]["content"]
    marked.append(next((block for block in reversed(last) if block["type"] == "tool_result"), last[-1]))
    for block in marked:
        block["cache_control"] = {"type": "ephemeral"}


def has_thinking(request: ModelRequest) -> bool:
    """Whether a reply in the messages has thinking that is sent back."""
    return any(_state_content(message) for message in request.messages)


def _turns(messages: Sequence[ChatMessage], *, thinking: bool) -> list[dict[str, Any]]:
    """Joins consecutive messages of one side; begins and ends with the user."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _assistant_blocks(message, thinking=thinking) if role == "assistant" else _user_blocks(message)
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    if not turns or turns[0]["role"] != "user":
        turns.insert(0, _continued())
    if turns[-1]["role"] != "user":
        turns.append(_continued())
    return turns


def _continued() -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": _CONTINUE}]}


def _user_blocks(message: ChatMessage) -> list[Block]:
    text: list[Block] = [{"type": "text", "text": message.content}] if message.content.strip() else []
    content = [*text, *map(_file_to_wire, message.files)]
    if message.role != "tool":
        return content
    return [{"type": "tool_result", "tool_use_id": _id(message.tool_call_id or ""), "content": content}]


def _file_to_wire(file: Media) -> Block:
    if file.url:
        source = {"type": "url", "url": file.url}
    else:
        source = {"type": "base64", "media_type": file.true_type, "data": file.encoded}
    if file.kind == "image":
        return {"type": "image", "source": source}
    return {"type": "document", "source": source, **({"title": file.name[:MAX_TITLE]} if file.name else {})}


def _assistant_blocks(message: ChatMessage, *, thinking: bool) -> list[Block]:
    calls = {call.id: _call_to_wire(call) for call in message.tool_calls}
    content = _state_content(message) if thinking else []
    # The blocks go back in their order, unless a hook has changed the model's text.
    said = "".join(block["text"] for block in content if block["type"] == "text")
    called = [block["id"] for block in content if block["type"] == "tool_use"]
    if content and said == message.content and called == list(calls):
        return [calls[block["id"]] if block["type"] == "tool_use" else dict(block) for block in content]
    text: list[Block] = [{"type": "text", "text": message.content}] if message.content.strip() else []
    return [*text, *calls.values()]


def _state_content(message: ChatMessage) -> list[Block]:
    state = message.metadata.get(PROVIDER_STATE)
    if not isinstance(state, Mapping) or state.get("provider") != PROVIDER:
        return []
    return list(state["content"])


def _call_to_wire(call: ToolCall) -> Block:
    if (arguments := json_object(call.arguments_json or "{}")) is None:
        arguments = {"invalid_json": call.arguments_json}
    return {"type": "tool_use", "id": _id(call.id), "name": call.name, "input": arguments}


def _tool_to_wire(tool: ToolSpec) -> dict[str, Any]:
    schema = {"type": "object", **tool.parameters_schema}
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


def _id(call_id: str) -> str:
    """Returns the id in the characters that the API accepts; other providers accept more."""
    return _REJECTED_IN_IDS.sub("_", call_id) or "call"
