"""The interface of model clients: requests, replies, chunks of a stream, and token estimates."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from archon_mesh.core.media import Kind
from archon_mesh.core.messages import PROVIDER_STATE, ChatMessage, ToolCall

CALL_TIMEOUT: Final = 300.0
"""Seconds of one model call in all, by default."""

IDLE_TIMEOUT: Final = 30.0
"""Seconds without a chunk of the reply after which a model call ends, by default."""

FIRST_TOKEN: Final = 4
"""How many times as long a model may be silent before its first token, by default: it may be loaded, or read a long
prompt."""

IMAGE_TOKENS: Final = 1_000
"""Estimated tokens of an image: providers count its size in pixels, not in bytes."""

FILE_TOKENS: Final = (500, 50_000)
"""The least and the most estimated tokens of a file that is no image."""

DECLINED: Final = "content_filter"
"""The finish reason of a reply that is no answer: the model declined, or its provider withheld the reply."""


LENGTH: Final = "length"
"""The finish reason of a reply that ended at its length limit: it is no whole answer."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it; `parameters_schema` is a JSON Schema of type object."""

    name: str
    description: str
    parameters_schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One model call; it ends after `timeout` seconds in all, after `idle_timeout` seconds without a chunk, and before
    the first token after `first_token_timeout` seconds without one (None: FIRST_TOKEN times the `idle_timeout`).

    `temperature` and `max_tokens` (of the reply) are the model's defaults if None. With `is_json` the messages ask for
    one JSON object, which a provider that can enforces; with `output_schema` the final answer has to be JSON of this
    schema, which describes an object. The messages ask for it in words, too: a client need not know the field.
    """

    messages: Sequence[ChatMessage]
    tools: Sequence[ToolSpec] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    timeout: float = CALL_TIMEOUT
    idle_timeout: float = IDLE_TIMEOUT
    is_json: bool = False
    first_token_timeout: float | None = None
    output_schema: Mapping[str, Any] | None = None

    @property
    def silence_at_first(self) -> float:
        """Seconds that the model may be silent before its first token."""
        return FIRST_TOKEN * self.idle_timeout if self.first_token_timeout is None else self.first_token_timeout


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens read and written; `estimated` if they were not counted by the model's own tokenizer.

    Of the input, the provider read `cached_input_tokens` from its cache and wrote `cache_write_tokens` to it.
    `cost_micro_usd` is in millionths of a US dollar; 0 if the model has no price.
    """

    input_tokens: int
    output_tokens: int
    estimated: bool = False
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    cost_micro_usd: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Returns the usage of two calls together."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.estimated or other.estimated,
            self.cached_input_tokens + other.cached_input_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.cost_micro_usd + other.cost_micro_usd,
        )


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A whole reply of `model`; `finish_reason` is stop, length, tool_calls or DECLINED.

    `provider_state` is a JSON value that only the client understands, such as signed thinking. It belongs to the
    assistant's message (under PROVIDER_STATE in its metadata), from which the client sends it back in later requests.
    """

    text: str
    tool_calls: tuple[ToolCall, ...]
    usage: Usage
    model: str
    finish_reason: str
    provider_state: Mapping[str, Any] | None = None

    def message(self) -> ChatMessage:
        """Returns the assistant's message that enters a history."""
        state = {PROVIDER_STATE: self.provider_state} if self.provider_state else {}
        return ChatMessage("assistant", self.text, tool_calls=self.tool_calls, metadata=state)


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A chunk of the tool call number `index`; the first chunk has the id and the name."""

    index: int
    id: str = ""
    name: str = ""
    arguments_delta: str = ""


@dataclass(frozen=True, slots=True)
class ModelChunk:
    """One step of a stream: text, thinking, or a chunk of a tool call; the last chunk has the whole reply.

    The reply does not include the thinking.
    """

    text_delta: str = ""
    thinking_delta: str = ""
    tool_call_delta: ToolCallDelta | None = None
    reply: ModelReply | None = None


class ModelClient(Protocol):
    """A model. `generate` and `stream` raise errors of `archon.errors`; neither retries."""

    @property
    def model(self) -> str:
        """The model's name."""
        ...

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Returns the whole reply."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        """Yields the reply in chunks. The last chunk has the whole reply; without it, the stream was cut off."""
        ...

    async def close(self) -> None:
        """Closes connections. Idempotent."""
        ...


def estimate_tokens(text: str) -> int:
    """Estimates the tokens of a text: one per four characters, rounded up. A rule of thumb for English."""
    return -(-len(text) // 4)


def estimate_file(kind: Kind, size: int) -> int:
    """Estimates the tokens of a file of `size` bytes: a text counts as text, an image counts IMAGE_TOKENS, and of any
    other file every 50 bytes are a token, within FILE_TOKENS."""
    if kind == "text":
        return -(-size // 4)
    lowest, highest = FILE_TOKENS
    return IMAGE_TOKENS if kind == "image" else max(lowest, min(highest, size // 50))


def estimate_message(message: ChatMessage) -> int:
    """Estimates the tokens of a message, including its tool calls and files."""
    pieces = [message.content, *(call.name + call.arguments_json for call in message.tool_calls)]
    return sum(estimate_tokens(piece) for piece in pieces) + sum(
        estimate_file(file.kind, len(file.data)) for file in message.files
    )


def estimate_input(request: ModelRequest) -> int:
    """Estimates the tokens of a request, including its tools, earlier tool calls, and files."""
    pieces = [tool.name + tool.description + json.dumps(dict(tool.parameters_schema)) for tool in request.tools]
    return sum(map(estimate_tokens, pieces)) + sum(map(estimate_message, request.messages))


def estimate_usage(request: ModelRequest, reply_text: str, calls: Sequence[ToolCall] = ()) -> Usage:
    """Returns usage by `estimate_tokens`, marked as estimated."""
    written = [reply_text, *(call.name + call.arguments_json for call in calls)]
    return Usage(estimate_input(request), sum(estimate_tokens(piece) for piece in written), estimated=True)
