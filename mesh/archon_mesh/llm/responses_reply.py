"""Assembles a reply from the events of a stream of OpenAI's responses API."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from archon.errors import Unavailable
from archon.failure_kinds import PROVIDER as PROVIDER_FAILURE
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm.base import ModelChunk, ModelReply, ModelRequest, ToolCallDelta, Usage, estimate_usage
from archon_mesh.llm.endpoint import checked_text
from archon_mesh.llm.provider_errors import stream_error
from archon_mesh.llm.responses_wire import PROVIDER, Item
from archon_mesh.llm.tool_names import ToolNames

_TEXT: Final = frozenset({"response.output_text.delta", "response.refusal.delta"})
_THINKING: Final = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})


@dataclass(slots=True)
class _Output:
    """An item of the output: message, function_call or reasoning."""

    type: str
    number: int = 0
    """Of a tool call: its index among those of the reply."""
    call_id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    phase: str = ""
    reasoning: Item | None = None

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def state(self) -> Item | None:
        """Returns what is kept to send the item back; of a tool call the id, because the message has the rest."""
        match self.type:
            case "reasoning":
                return self.reasoning
            case "function_call":
                return {"type": "function_call", "call_id": self.call_id}
        phase = {"phase": self.phase} if self.phase else {}
        return {"type": "message", "role": "assistant", "content": self.text, **phase} if self.text else None


class ResponseAssembler:
    """Takes events and yields chunks; `finish` has the whole reply."""

    def __init__(self, names: ToolNames, key: str) -> None:
        """`key` is removed from errors."""
        self._names = names
        self._key = key
        self._outputs: dict[int, _Output] = {}
        self._response: Any = None
        self._refused = False

    def add(self, event: Any) -> Iterator[ModelChunk]:
        """Yields the chunks of an event. Raises the error of an event that reports one."""
        match event.type:
            case kind if kind in _TEXT:
                self._refused |= "refusal" in kind
                text = checked_text(event.delta)
                self._output(event.output_index, "message").pieces.append(text)
                yield ModelChunk(text_delta=text)
            case kind if kind in _THINKING:
                yield ModelChunk(thinking_delta=checked_text(event.delta))
            case "response.reasoning_summary_part.added" if event.summary_index:
                yield ModelChunk(thinking_delta="\n\n")
            case "response.output_item.added":
                yield from self._start(event.output_index, event.item)
            case "response.function_call_arguments.delta":
                yield from self._arguments(self._outputs[event.output_index], event.delta)
            case "response.output_item.done":
                yield from self._end(event.output_index, event.item)
            case "response.completed" | "response.incomplete":
                self._response = event.response
            case "response.failed":
                error = event.response.error
                raise stream_error(f"{error and error.code}", {"message": error and error.message}, self._key)
            case "error":
                raise stream_error(f"{event.code}", {"message": event.message}, self._key)

    def finish(self, request: ModelRequest, model: str) -> ModelReply:
        """Returns the whole reply. Raises Unavailable if the stream ended before it was complete."""
        response = self._response
        if response is None:
            raise Unavailable("the model's stream ended before the reply was complete", kind=PROVIDER_FAILURE)
        outputs = [output for _, output in sorted(self._outputs.items())]
        text = "".join(output.text for output in outputs if output.type == "message")
        calls = tuple(
            ToolCall(output.call_id, output.name, output.text) for output in outputs if output.type == "function_call"
        )
        state = None
        if any(output.reasoning or output.phase for output in outputs):
            items = [item for output in outputs if (item := output.state()) is not None]
            state = {"provider": PROVIDER, "items": items}
        usage = _usage(response.usage, request, text, calls)
        return ModelReply(text, calls, usage, response.model or model, self._finish_reason(bool(calls)), state)

    def _finish_reason(self, has_calls: bool) -> str:
        details = self._response.incomplete_details
        reason = details.reason if details is not None else None
        if reason == "content_filter" or self._refused:
            return "content_filter"
        if reason is not None or self._response.status == "incomplete":
            return "length"
        return "tool_calls" if has_calls else "stop"

    def _output(self, index: int, kind: str) -> _Output:
        return self._outputs.setdefault(index, _Output(kind))

    def _start(self, index: int, item: Any) -> Iterator[ModelChunk]:
        output = self._output(index, item.type)
        if item.type == "function_call":
            output.number = sum(other.type == "function_call" for other in self._outputs.values()) - 1
            output.call_id, output.name = item.call_id, self._names.original(item.name)
            yield ModelChunk(tool_call_delta=ToolCallDelta(output.number, output.call_id, output.name))
            yield from self._arguments(output, item.arguments)

    def _arguments(self, output: _Output, value: Any) -> Iterator[ModelChunk]:
        if delta := checked_text(value):
            output.pieces.append(delta)
            yield ModelChunk(tool_call_delta=ToolCallDelta(output.number, arguments_delta=delta))

    def _end(self, index: int, item: Any) -> Iterator[ModelChunk]:
        if index not in self._outputs:
            yield from self._start(index, item)
        output = self._outputs[index]
        match item.type:
            case "function_call" if not output.pieces:
                yield from self._arguments(output, item.arguments)
            case "message":
                output.phase = getattr(item, "phase", None) or ""
            case "reasoning" if item.encrypted_content:
                summary = [{"type": "summary_text", "text": part.text} for part in item.summary or ()]
                encrypted = item.encrypted_content
                output.reasoning = {
                    "type": "reasoning",
                    "id": item.id,
                    "summary": summary,
                    "encrypted_content": encrypted,
                }


def _usage(usage: Any, request: ModelRequest, text: str, calls: tuple[ToolCall, ...]) -> Usage:
    if usage is None:
        return estimate_usage(request, text, calls)
    details = usage.input_tokens_details
    return Usage(
        usage.input_tokens or 0,
        usage.output_tokens or 0,
        cached_input_tokens=getattr(details, "cached_tokens", None) or 0,
        cache_write_tokens=getattr(details, "cache_write_tokens", None) or 0,
    )
