"""Reads replies of Anthropic's Messages API, as streams or whole, in the forms that its servers give them.

The forms that are read beside Anthropic's own: blocks that come whole, or without their start; arguments as an object
in the start of a block; ids that are missing, numbers, or repeat; a stream that ends without the reason. Anything else
is an error with the server's words.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from archon.errors import Unavailable, UnknownFailure
from archon.failure_kinds import PROVIDER as PROVIDER_FAILURE
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm.anthropic_wire import PROVIDER
from archon_mesh.llm.base import ModelChunk, ModelReply, ModelRequest, ToolCallDelta, Usage, estimate_usage
from archon_mesh.llm.json_values import id_of, in_order, json_text_of, object_of, text_of
from archon_mesh.llm.provider_errors import stream_error
from archon_mesh.llm.reply_stream import Received
from archon_mesh.llm.reply_text import ReplyText
from archon_mesh.llm.tool_names import ToolNames

NO_REPLY: Final = "the model endpoint's response is not one of the Messages API"

REFUSED: Final = "The model refused to answer."
"""The text of a refusal for which the provider gives no explanation."""

_FINISH_REASONS: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "length",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_COUNTS: Final = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")

_TEXT: Final = "text"
_THINKING: Final = "thinking"
_REDACTED: Final = "redacted_thinking"
_CALL: Final = "tool_use"
_TYPES: Final = {
    "text_delta": _TEXT,
    "thinking_delta": _THINKING,
    "signature_delta": _THINKING,
    "input_json_delta": _CALL,
}
"""The types of the blocks that deltas belong to."""


@dataclass(slots=True)
class _Block:
    """A block of the content: text, thinking, redacted_thinking, or tool_use."""

    type: str
    number: int = 0
    """Of a tool call: its index among the reply's calls."""
    id: str = ""
    name: str = ""
    data: str = ""
    pieces: list[str] = field(default_factory=list)
    splitter: ReplyText = field(default_factory=ReplyText)
    signature: str = ""

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def state(self) -> dict[str, Any]:
        """Returns the data to send the block back; of a tool call the id, because the message has the rest."""
        match self.type:
            case "thinking":
                return {"type": _THINKING, "thinking": self.text, "signature": self.signature}
            case "redacted_thinking":
                return {"type": _REDACTED, "data": self.data}
            case "tool_use":
                return {"type": _CALL, "id": self.id}
        return {"type": _TEXT, "text": self.text}


class MessageReply:
    """One reply: `add` takes its events, or the whole of it."""

    def __init__(self, names: ToolNames, key: str = "") -> None:
        """`key` is removed from a server's error messages."""
        self._names = names
        self._key = key
        self._blocks: dict[object, _Block] = {}
        self._counts: dict[str, int] = {}
        self._model = ""
        self._stop_reason = ""
        self._has_stopped = False
        self._explanation = ""

    def add(self, event: Received) -> Iterator[ModelChunk]:
        """Takes an event, or a whole reply. Raises the error that the server reports in its place, and UnknownFailure
        if it is neither."""
        data = event.data
        if data is None:
            return
        if not isinstance(data, Mapping):
            raise UnknownFailure(NO_REPLY)
        kind = text_of(data.get("type")) or event.name
        if kind == "error" or data.get("error"):
            error = object_of(data.get("error")) or data
            raise stream_error(text_of(error.get("type")), error, self._key)
        match kind:
            case "message":
                yield from self._whole(data)
            case "message_start":
                message = object_of(data.get("message"))
                self._model = text_of(message.get("model"))
                self._count(message.get("usage"))
            case "content_block_start":
                yield from self._start(data.get("index"), data["content_block"])
            case "content_block_delta":
                yield from self._delta(data.get("index"), data["delta"])
            case "message_delta":
                self._stop(object_of(data.get("delta")))
                self._count(data.get("usage"))
            case "message_stop":
                self._has_stopped = True

    def rest(self) -> Iterator[ModelChunk]:
        """Ends the texts. Yields the text held back because a tag or a character seemed to begin there."""
        for block in self._blocks.values():
            if block.type == _TEXT:
                yield from _split(block, *block.splitter.end())

    def finish(self, request: ModelRequest, model: str, *, is_ended: bool) -> ModelReply:
        """Returns the whole reply. `is_ended`: the server said that the stream ends here.

        Raises Unavailable if it ended before it was complete, and UnknownFailure if it was no reply.
        """
        has_ended = self._has_stopped or is_ended
        if not self._stop_reason and not has_ended:
            raise Unavailable("the model's stream ended before the reply was complete", kind=PROVIDER_FAILURE)
        if not self._stop_reason and not self._blocks:
            raise UnknownFailure(NO_REPLY)
        for _ in self.rest():
            pass
        blocks = in_order(self._blocks)
        text = "".join(block.text for block in blocks if block.type == _TEXT)
        if self._stop_reason == "refusal" and not text:
            text = self._explanation or REFUSED
        calls = _tool_calls(blocks)
        thought = any(block.type in (_THINKING, _REDACTED) for block in blocks)
        kept = [block.state() for block in blocks if block.type != _TEXT or block.text.strip()]
        state = {"provider": PROVIDER, "content": kept} if thought else None
        reason = _FINISH_REASONS.get(self._stop_reason, "tool_calls" if calls and not self._stop_reason else "stop")
        return ModelReply(text, calls, self._usage(request, text, calls), self._model or model, reason, state)

    def _whole(self, message: Mapping[str, Any]) -> Iterator[ModelChunk]:
        self._model = text_of(message.get("model"))
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else [{"type": _TEXT, "text": content}]):
            yield from self._start(index, block)
        self._stop(message)
        self._count(message.get("usage"))

    def _stop(self, delta: Mapping[str, Any]) -> None:
        self._stop_reason = text_of(delta.get("stop_reason")) or self._stop_reason
        details = object_of(delta.get("stop_details"))
        self._explanation = text_of(details.get("explanation")) or self._explanation

    def _block(self, index: object, kind: str) -> _Block:
        """Returns the block of an event; of one that does not say it, the last of its type."""
        if index is None:
            last = next((block for block in reversed(self._blocks.values()) if block.type == kind), None)
            if last is not None:
                return last
            index = len(self._blocks)
        block = self._blocks.get(index)
        if block is None:
            block = self._blocks[index] = _Block(kind)
            block.number = sum(each.type == _CALL for each in self._blocks.values()) - 1
        return block

    def _start(self, index: object, start: Mapping[str, Any]) -> Iterator[ModelChunk]:
        kind = text_of(start.get("type"))
        if kind not in (_TEXT, _THINKING, _REDACTED, _CALL):
            return  # a tool that the provider executes itself; none is ever asked for
        block = self._block(len(self._blocks) if index is None else index, kind)
        match kind:
            case "tool_use":
                block.id, block.name = id_of(start.get("id")), self._names.original(text_of(start.get("name")))
                yield ModelChunk(tool_call_delta=ToolCallDelta(block.number, block.id, block.name))
                if given := start.get("input"):
                    yield from self._piece(block, json_text_of(given))
            case "redacted_thinking":
                block.data = text_of(start.get("data"))
            case "thinking":
                block.signature = text_of(start.get("signature"))
                yield from self._piece(block, start.get("thinking"))
            case _:
                yield from self._piece(block, start.get("text"))

    def _delta(self, index: object, delta: Mapping[str, Any]) -> Iterator[ModelChunk]:
        kind = text_of(delta.get("type"))
        if kind not in _TYPES or (index is not None and index not in self._blocks and _TYPES[kind] == _CALL):
            return  # of a tool that the provider executes itself
        block = self._block(index, _TYPES[kind])
        match kind:
            case "signature_delta":
                block.signature += text_of(delta.get("signature"))
            case "input_json_delta":
                yield from self._piece(block, delta.get("partial_json"))
            case _:
                yield from self._piece(block, delta.get(block.type))

    def _piece(self, block: _Block, value: object) -> Iterator[ModelChunk]:
        if value is not None and not isinstance(value, str):
            raise TypeError(f"expected a text, not {type(value).__name__}")
        if not value:
            return
        if block.type == _TEXT:
            yield from _split(block, *block.splitter.feed(value))
            return
        block.pieces.append(value)
        if block.type == _CALL:
            yield ModelChunk(tool_call_delta=ToolCallDelta(block.number, arguments_delta=value))
        else:
            yield ModelChunk(thinking_delta=value)

    def _count(self, usage: object) -> None:
        """Takes in counts; those at the end of the stream include the earlier ones."""
        counts = object_of(usage)
        self._counts |= {name: count for name in _COUNTS if isinstance(count := counts.get(name), int)}

    def _usage(self, request: ModelRequest, text: str, calls: tuple[ToolCall, ...]) -> Usage:
        if "output_tokens" not in self._counts or "input_tokens" not in self._counts:
            return estimate_usage(request, text, calls)
        fresh, cached, written, output = (self._counts.get(name, 0) for name in _COUNTS)
        return Usage(fresh + cached + written, output, cached_input_tokens=cached, cache_write_tokens=written)


def _tool_calls(blocks: list[_Block]) -> tuple[ToolCall, ...]:
    """Returns the calls, each with an id of its own. Raises Unavailable for one without a name."""
    taken: set[str] = set()
    calls: list[ToolCall] = []
    for block in blocks:
        if block.type != _CALL:
            continue
        if not block.name:
            raise Unavailable("the model endpoint sent a tool call without a name", kind=PROVIDER_FAILURE)
        if not block.id or block.id in taken:
            block.id = f"toolu_{secrets.token_hex(12)}"
        taken.add(block.id)
        calls.append(ToolCall(block.id, block.name, block.text or "{}"))
    return tuple(calls)


def _split(block: _Block, thinking: str, answer: str) -> Iterator[ModelChunk]:
    if thinking:
        yield ModelChunk(thinking_delta=thinking)
    if answer:
        block.pieces.append(answer)
        yield ModelChunk(text_delta=answer)
