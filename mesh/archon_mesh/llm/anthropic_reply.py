"""Assembles a reply from the events of a stream of Anthropic's Messages API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from archon.errors import Unavailable
from archon.failure_kinds import PROVIDER as PROVIDER_FAILURE
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm.anthropic_wire import PROVIDER
from archon_mesh.llm.base import ModelChunk, ModelReply, ModelRequest, ToolCallDelta, Usage, estimate_usage
from archon_mesh.llm.endpoint import checked_text
from archon_mesh.llm.tool_names import ToolNames

REFUSED: Final = "The model refused to answer."
"""The text of a refusal for which the provider gives no explanation."""

_FINISH_REASONS: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_COUNTS: Final = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")


@dataclass(slots=True)
class _Block:
    """A block of the content: text, thinking, redacted_thinking, or tool_use."""

    type: str
    number: int = 0
    """Of a tool call: its index among those of the reply."""
    id: str = ""
    name: str = ""
    data: str = ""
    pieces: list[str] = field(default_factory=list)
    signature: str = ""

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def state(self) -> dict[str, Any]:
        """Returns what is kept to send the block back; of a tool call the id, because the message has the rest."""
        match self.type:
            case "thinking":
                return {"type": "thinking", "thinking": self.text, "signature": self.signature}
            case "redacted_thinking":
                return {"type": "redacted_thinking", "data": self.data}
            case "tool_use":
                return {"type": "tool_use", "id": self.id}
        return {"type": "text", "text": self.text}


class MessageAssembler:
    """Takes events and yields chunks; `finish` has the whole reply."""

    def __init__(self, names: ToolNames) -> None:
        self._names = names
        self._blocks: dict[int, _Block] = {}
        self._counts: dict[str, int] = {}
        self._model = ""
        self._stop_reason = ""
        self._explanation = ""

    def add(self, event: Any) -> Iterator[ModelChunk]:
        """Yields the chunks of an event."""
        match event.type:
            case "message_start":
                self._model = event.message.model
                self._count(event.message.usage)
            case "content_block_start":
                yield from self._start(event.index, event.content_block)
            case "content_block_delta":
                if (block := self._blocks.get(event.index)) is not None:
                    yield from self._delta(block, event.delta)
            case "message_delta":
                self._stop_reason = event.delta.stop_reason or self._stop_reason
                details = getattr(event.delta, "stop_details", None)
                self._explanation = getattr(details, "explanation", None) or self._explanation
                self._count(event.usage)

    def finish(self, request: ModelRequest, model: str) -> ModelReply:
        """Returns the whole reply. Raises Unavailable if the stream ended before it was complete."""
        if not self._stop_reason:
            raise Unavailable("the model's stream ended before the reply was complete", kind=PROVIDER_FAILURE)
        blocks = [block for _, block in sorted(self._blocks.items())]
        text = "".join(block.text for block in blocks if block.type == "text")
        if self._stop_reason == "refusal" and not text:
            text = self._explanation or REFUSED
        calls = tuple(
            ToolCall(block.id, block.name, block.text or "{}") for block in blocks if block.type == "tool_use"
        )
        thought = any(block.type.endswith("thinking") for block in blocks)
        kept = [block.state() for block in blocks if block.type != "text" or block.text.strip()]
        state = {"provider": PROVIDER, "content": kept} if thought else None
        reason = _FINISH_REASONS.get(self._stop_reason, "stop")
        return ModelReply(text, calls, self._usage(request, text, calls), self._model or model, reason, state)

    def _start(self, index: int, start: Any) -> Iterator[ModelChunk]:
        if start.type not in ("text", "thinking", "redacted_thinking", "tool_use"):
            return  # a tool that the provider executes itself; none is ever asked for
        block = self._blocks[index] = _Block(start.type)
        match start.type:
            case "tool_use":
                block.number = sum(other.type == "tool_use" for other in self._blocks.values()) - 1
                block.id, block.name = start.id, self._names.original(start.name)
                yield ModelChunk(tool_call_delta=ToolCallDelta(block.number, block.id, block.name))
                yield from self._piece(block, json.dumps(start.input) if start.input else "")
            case "redacted_thinking":
                block.data = start.data
            case "thinking":
                block.signature = start.signature or ""
                yield from self._piece(block, start.thinking)
            case _:
                yield from self._piece(block, start.text)

    def _delta(self, block: _Block, delta: Any) -> Iterator[ModelChunk]:
        match delta.type:
            case "text_delta":
                yield from self._piece(block, delta.text)
            case "thinking_delta":
                yield from self._piece(block, delta.thinking)
            case "input_json_delta":
                yield from self._piece(block, delta.partial_json)
            case "signature_delta":
                block.signature += delta.signature

    def _piece(self, block: _Block, value: Any) -> Iterator[ModelChunk]:
        if not (text := checked_text(value)):
            return
        block.pieces.append(text)
        match block.type:
            case "text":
                yield ModelChunk(text_delta=text)
            case "thinking":
                yield ModelChunk(thinking_delta=text)
            case _:
                yield ModelChunk(tool_call_delta=ToolCallDelta(block.number, arguments_delta=text))

    def _count(self, usage: Any) -> None:
        """Takes in counts; those at the end of the stream include the earlier ones."""
        for name in _COUNTS:
            count = getattr(usage, name, None)
            if isinstance(count, int):
                self._counts[name] = count

    def _usage(self, request: ModelRequest, text: str, calls: tuple[ToolCall, ...]) -> Usage:
        if "output_tokens" not in self._counts or "input_tokens" not in self._counts:
            return estimate_usage(request, text, calls)
        fresh, cached, written, output = (self._counts.get(name, 0) for name in _COUNTS)
        return Usage(fresh + cached + written, output, cached_input_tokens=cached, cache_write_tokens=written)
