"""What every model client takes and gives."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from archon_mesh.core.messages import ChatMessage, ToolCall


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it; `parameters_schema` is a JSON Schema of type object."""

    name: str
    description: str
    parameters_schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call; `timeout` is in seconds.

    `temperature` and `max_tokens` (of the reply) are the model's own where None.
    """

    messages: Sequence[ChatMessage]
    tools: Sequence[ToolSpec] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    timeout: float = 30.0


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens read and written; `estimated` where we counted and not the model's own tokenizer."""

    input_tokens: int
    output_tokens: int
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A whole reply, by `model`; `finish_reason` is stop, length, tool_calls or content_filter."""

    text: str
    tool_calls: tuple[ToolCall, ...]
    usage: Usage
    model: str
    finish_reason: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of the tool call number `index`: id and name come with the first, arguments bit by bit."""

    index: int
    id: str = ""
    name: str = ""
    arguments_delta: str = ""


@dataclass(frozen=True, slots=True)
class ModelChunk:
    """One step of a stream: some text, some of what the model thinks, a piece of a tool call, or, last of all, the
    whole reply, which has nothing of what it thought."""

    text_delta: str = ""
    thinking_delta: str = ""
    tool_call_delta: ToolCallDelta | None = None
    reply: ModelReply | None = None


class ModelClient(Protocol):
    """A model. Both ways of asking raise the errors of `archon.errors`; none retries."""

    @property
    def model(self) -> str:
        """The model's name."""
        ...

    async def generate(self, request: ModelRequest) -> ModelReply:
        """The whole reply at once."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        """The reply as it is made; the last chunk carries all of it, so a stream without one was cut off."""
        ...

    async def close(self) -> None:
        """Give connections back. Closing twice is fine."""
        ...


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has: one per four characters, rounded up. A rule of thumb for English."""
    return -(-len(text) // 4)


def estimate_input(request: ModelRequest) -> int:
    """About how many tokens a request has; what is on offer and what was called before count as well."""
    pieces = [message.content for message in request.messages]
    pieces += [call.name + call.arguments_json for message in request.messages for call in message.tool_calls]
    pieces += [tool.name + tool.description + json.dumps(dict(tool.parameters_schema)) for tool in request.tools]
    return sum(estimate_tokens(piece) for piece in pieces)


def estimate_usage(request: ModelRequest, reply_text: str, calls: Sequence[ToolCall] = ()) -> Usage:
    """Usage by `estimate_tokens`, flagged as such."""
    written = [reply_text, *(call.name + call.arguments_json for call in calls)]
    return Usage(estimate_input(request), sum(estimate_tokens(piece) for piece in written), estimated=True)
