"""Converts requests to the messages of pydantic-ai."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from archon_mesh.core.messages import PROVIDER_STATE, ChatMessage
from archon_mesh.llm.base import ToolSpec
from archon_mesh.llm.wire import sendable

CONTINUE: Final = "Continue."
"""The user's text where a provider requires the user to say something."""


def to_messages(messages: Sequence[ChatMessage], provider: str) -> list[ModelMessage]:
    """Returns the messages. Replies of `provider` have the thinking, and its signatures, that they came with."""
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    head = next((index for index, message in enumerate(messages) if message.role != "system"), len(messages))
    found: list[ModelMessage] = []
    numbered = list(enumerate(messages))
    for is_reply, group in groupby(numbered, key=lambda each: each[1].role == "assistant"):
        if is_reply:
            found += [response for _, message in group if (response := _reply(message, provider)) is not None]
        else:
            found.append(ModelRequest([_part(message, names, is_head=index < head) for index, message in group]))
    if not found or isinstance(found[-1], ModelResponse):
        found.append(ModelRequest([UserPromptPart(CONTINUE)]))
    return found


def to_parameters(tools: Sequence[ToolSpec]) -> ModelRequestParameters:
    """Returns the tools in pydantic-ai's form."""
    return ModelRequestParameters(
        function_tools=[
            ToolDefinition(
                name=tool.name,
                description=tool.description,
                parameters_json_schema={"type": "object", "properties": {}, **tool.parameters_schema},
            )
            for tool in tools
        ]
    )


def state_of(response: ModelResponse, provider: str) -> Mapping[str, Any] | None:
    """Returns the data that must go back with a reply, as JSON; None if its texts and calls say it all."""
    if all(isinstance(part, (TextPart, ToolCallPart)) and part.provider_details is None for part in response.parts):
        return None
    [data] = ModelMessagesTypeAdapter.dump_python([response], mode="json")
    return {"provider": provider, "response": {key: data[key] for key in ("kind", "parts", "provider_name")}}


def _reply(message: ChatMessage, provider: str) -> ModelResponse | None:
    kept = _kept(message, provider)
    if kept is not None:
        return kept
    parts: list[TextPart | ToolCallPart] = [TextPart(message.content)] if message.content.strip() else []
    calls = map(sendable, message.tool_calls)
    parts += [ToolCallPart(call.name, call.arguments_json, tool_call_id=call.id) for call in calls]
    return ModelResponse(parts) if parts else None


def _kept(message: ChatMessage, provider: str) -> ModelResponse | None:
    """Returns the reply as it came, unless a hook has changed its text."""
    state = message.metadata.get(PROVIDER_STATE)
    if not isinstance(state, Mapping) or state.get("provider") != provider:
        return None
    [response] = ModelMessagesTypeAdapter.validate_python([state["response"]])
    assert isinstance(response, ModelResponse)
    said = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    called = [part.tool_call_id for part in response.parts if isinstance(part, ToolCallPart)]
    is_unchanged = said == message.content and called == [call.id for call in message.tool_calls]
    return response if is_unchanged else None


def _part(message: ChatMessage, names: Mapping[str, str], *, is_head: bool) -> ModelRequestPart:
    if message.role == "tool":
        call_id = message.tool_call_id or ""
        return ToolReturnPart(names.get(call_id, "tool"), _content(message), tool_call_id=call_id)
    if is_head:
        return SystemPromptPart(message.content)
    # Later system messages would change the beginning, which providers keep from one request to the next.
    return UserPromptPart(_content(message) or CONTINUE)


def _content(message: ChatMessage) -> str | list[str | BinaryContent]:
    """Returns the text of a message; with files, the text unless it is empty, then the files."""
    if not message.files:
        return message.content
    text = [message.content] if message.content.strip() else []
    return [*text, *(BinaryContent(file.data, media_type=file.true_type) for file in message.files)]
