"""Reads replies of OpenAI's responses API, as streams or whole, in the forms that its servers give them.

The forms that are read beside OpenAI's own: items that come whole, or only in the last event; events without the index
of their item, or before the item was added; arguments as an object; ids that are missing, numbers, or repeat; thinking
in tags; `[DONE]` in place of the last event. Anything else is an error with the server's words.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from archon.errors import Unavailable, UnknownFailure
from archon.failure_kinds import PROVIDER as PROVIDER_FAILURE
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm.base import (
    DECLINED,
    LENGTH,
    ModelChunk,
    ModelReply,
    ModelRequest,
    ToolCallDelta,
    Usage,
    estimate_usage,
)
from archon_mesh.llm.json_values import count_of, id_of, in_order, json_text_of, object_of, text_of
from archon_mesh.llm.provider_errors import stream_error
from archon_mesh.llm.reply_stream import Received
from archon_mesh.llm.reply_text import ReplyText
from archon_mesh.llm.responses_wire import PROVIDER, Item
from archon_mesh.llm.tool_names import ToolNames

NO_REPLY: Final = "the model endpoint's response is not one of the responses API"

MESSAGE: Final = "message"
CALL: Final = "function_call"
REASONING: Final = "reasoning"

_TEXT_DELTAS: Final = ("response.output_text.delta", "response.refusal.delta")
_TEXT_ENDS: Final = ("response.output_text.done", "response.refusal.done")
_THINKING_DELTAS: Final = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_ENDS: Final = ("response.completed", "response.incomplete", "response.done", "response.failed", "response.cancelled")


@dataclass(slots=True)
class _Output:
    """An item of the output: message, function_call or reasoning."""

    type: str
    number: int = 0
    """Of a tool call: its index among the reply's calls."""
    call_id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    splitter: ReplyText = field(default_factory=ReplyText)
    phase: str = ""
    is_done: bool = False
    reasoning: Item | None = None

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def state(self) -> Item | None:
        """Returns the data to send the item back; of a tool call the id, because the message has the rest."""
        match self.type:
            case "reasoning":
                return self.reasoning
            case "function_call":
                return {"type": CALL, "call_id": self.call_id}
        phase = {"phase": self.phase} if self.phase else {}
        return {"type": MESSAGE, "role": "assistant", "content": self.text, **phase} if self.text else None


class ResponseReply:
    """One reply: `add` takes its events, or the whole of it."""

    def __init__(self, names: ToolNames, key: str = "") -> None:
        """`key` is removed from a server's error messages."""
        self._names = names
        self._key = key
        self._outputs: dict[object, _Output] = {}
        self._response: Mapping[str, Any] | None = None
        self._refused = False

    def add(self, event: Received) -> Iterator[ModelChunk]:
        """Takes an event, or a whole reply. Raises the error that the server reports in its place, and UnknownFailure
        if it is neither."""
        data = event.data
        if data is None:
            return
        if not isinstance(data, Mapping):
            raise UnknownFailure(NO_REPLY)
        kind = text_of(data.get("type")) or event.name
        if kind in _ENDS or data.get("object") == "response":
            yield from self._end(object_of(data.get("response")) or data)
        elif kind == "error" or (data.get("error") and not kind.startswith("response.")):
            error = object_of(data.get("error")) or data
            raise stream_error(f"{error.get('type', '')} {error.get('code', '')}".strip(), error, self._key)
        elif kind in _TEXT_DELTAS or kind in _TEXT_ENDS:
            output = self._output(data, MESSAGE)
            self._refused |= "refusal" in kind
            if kind in _TEXT_DELTAS:
                yield from self._text(output, _checked(data.get("delta")))
            elif not output.pieces:
                yield from self._text(output, text_of(data.get("text")) or text_of(data.get("refusal")))
        elif kind in _THINKING_DELTAS:
            yield from _thinking(_checked(data.get("delta")))
        elif kind == "response.reasoning_summary_part.added" and data.get("summary_index"):
            yield from _thinking("\n\n")
        elif kind == "response.function_call_arguments.delta":
            yield from self._arguments(self._output(data, CALL), _checked(data.get("delta")))
        elif kind == "response.function_call_arguments.done":
            yield from self._call(self._output(data, CALL), data)
        elif kind in ("response.output_item.added", "response.output_item.done"):
            yield from self._item(data, is_done=kind.endswith("done"))

    def rest(self) -> Iterator[ModelChunk]:
        """Ends the texts. Yields the text held back because a tag or a character seemed to begin there."""
        for output in self._outputs.values():
            if output.type == MESSAGE:
                yield from _split(output, *output.splitter.end())

    def finish(self, request: ModelRequest, model: str, *, is_ended: bool) -> ModelReply:
        """Returns the whole reply. `is_ended`: the server said that the stream ends here.

        Raises Unavailable if it ended before it was complete, and UnknownFailure if it was no reply.
        """
        if self._response is None and not is_ended:
            raise Unavailable("the model's stream ended before the reply was complete", kind=PROVIDER_FAILURE)
        if self._response is None and not self._outputs:
            raise UnknownFailure(NO_REPLY)
        for _ in self.rest():
            pass
        response = self._response or {}
        outputs = in_order(self._outputs)
        text = "".join(output.text for output in outputs if output.type == MESSAGE)
        calls = self._tool_calls(outputs)
        state = None
        if any(output.reasoning or output.phase for output in outputs):
            items = [item for output in outputs if (item := output.state()) is not None]
            state = {"provider": PROVIDER, "items": items}
        usage = _usage(response.get("usage"), request, text, calls)
        name = text_of(response.get("model")) or model
        return ModelReply(text, calls, usage, name, self._finish_reason(response, bool(calls)), state)

    def _finish_reason(self, response: Mapping[str, Any], has_calls: bool) -> str:
        reason = text_of(object_of(response.get("incomplete_details")).get("reason"))
        if reason == DECLINED or self._refused:
            return DECLINED
        if reason or response.get("status") == "incomplete":
            return LENGTH
        return "tool_calls" if has_calls else "stop"

    def _end(self, response: Mapping[str, Any]) -> Iterator[ModelChunk]:
        """Takes the last event, or a whole reply. Items of it that have not come are read from it."""
        if error := response.get("error"):
            raise stream_error(text_of(object_of(error).get("code")), error, self._key)
        if response.get("status") in ("failed", "cancelled"):
            raise Unavailable(f"the model endpoint ended its reply as {response['status']}", kind=PROVIDER_FAILURE)
        self._response = response
        items = response.get("output")
        if isinstance(items, list) and not any(output.pieces or output.name for output in self._outputs.values()):
            self._outputs.clear()
            for index, item in enumerate(items):
                yield from self._item({"output_index": index, "item": item}, is_done=True)

    def _output(self, event: Mapping[str, Any], kind: str, *, is_new: bool = False) -> _Output:
        """Returns the item of an event. Of an event that does not say it, it is a new one, or the last of its kind that
        has not ended."""
        index = event.get("output_index")
        key: object = index if isinstance(index, int) else id_of(event.get("item_id"))
        if key == "":
            under_way = [each for each in self._outputs.values() if each.type == kind and not each.is_done]
            if under_way and not is_new:
                return under_way[-1]
            key = f"#{len(self._outputs)}"
        output = self._outputs.get(key)
        if output is None:
            output = self._outputs[key] = _Output(kind)
            output.number = sum(each.type == CALL for each in self._outputs.values()) - 1
        return output

    def _item(self, event: Mapping[str, Any], *, is_done: bool) -> Iterator[ModelChunk]:
        item = event["item"]
        kind = text_of(item.get("type"))
        if kind not in (MESSAGE, CALL, REASONING):
            return  # work that the provider did by itself
        output = self._output({"item_id": item.get("id"), **event}, kind, is_new=not is_done)
        output.is_done = is_done
        match kind:
            case "function_call":
                yield from self._call(output, item)
            case "message" if is_done:
                output.phase = text_of(item.get("phase"))
                if not output.pieces:
                    for part in item.get("content") or ():
                        self._refused |= part.get("type") == "refusal"
                        yield from self._text(output, text_of(part.get("text")) or text_of(part.get("refusal")))
            case "reasoning" if is_done and item.get("encrypted_content"):
                summary = [{"type": "summary_text", "text": part["text"]} for part in item.get("summary") or ()]
                encrypted = item["encrypted_content"]
                output.reasoning = {
                    "type": REASONING,
                    "id": item.get("id"),
                    "summary": summary,
                    "encrypted_content": encrypted,
                }

    def _call(self, output: _Output, item: Mapping[str, Any]) -> Iterator[ModelChunk]:
        output.type = CALL
        call_id, name = id_of(item.get("call_id")), text_of(item.get("name"))
        if name and not output.name:
            output.call_id, output.name = call_id or id_of(item.get("id")), self._names.original(name)
            yield ModelChunk(tool_call_delta=ToolCallDelta(output.number, output.call_id, output.name))
        if not output.pieces:
            yield from self._arguments(output, json_text_of(item.get("arguments")))

    def _arguments(self, output: _Output, delta: str) -> Iterator[ModelChunk]:
        if delta:
            output.pieces.append(delta)
            yield ModelChunk(tool_call_delta=ToolCallDelta(output.number, arguments_delta=delta))

    def _text(self, output: _Output, text: str) -> Iterator[ModelChunk]:
        yield from _split(output, *output.splitter.feed(text))

    def _tool_calls(self, outputs: list[_Output]) -> tuple[ToolCall, ...]:
        """Returns the calls, each with an id of its own. Raises Unavailable for one without a name."""
        taken: set[str] = set()
        calls: list[ToolCall] = []
        for output in outputs:
            if output.type != CALL:
                continue
            if not output.name:
                raise Unavailable("the model endpoint sent a tool call without a name", kind=PROVIDER_FAILURE)
            if not output.call_id or output.call_id in taken:
                output.call_id = f"call_{secrets.token_hex(12)}"
            taken.add(output.call_id)
            calls.append(ToolCall(output.call_id, output.name, output.text))
        return tuple(calls)


def _split(output: _Output, thinking: str, answer: str) -> Iterator[ModelChunk]:
    yield from _thinking(thinking)
    if answer:
        output.pieces.append(answer)
        yield ModelChunk(text_delta=answer)


def _thinking(text: str) -> Iterator[ModelChunk]:
    if text:
        yield ModelChunk(thinking_delta=text)


def _checked(delta: object) -> str:
    """Returns the text of a delta, empty for null. Raises TypeError for anything else."""
    if delta is not None and not isinstance(delta, str):
        raise TypeError(f"expected a text, not {type(delta).__name__}")
    return delta or ""


def _usage(usage: object, request: ModelRequest, text: str, calls: tuple[ToolCall, ...]) -> Usage:
    counts = object_of(usage)
    if not counts:
        return estimate_usage(request, text, calls)
    details = object_of(counts.get("input_tokens_details"))
    return Usage(
        count_of(counts.get("input_tokens")),
        count_of(counts.get("output_tokens")),
        cached_input_tokens=count_of(details.get("cached_tokens")),
        cache_write_tokens=count_of(details.get("cache_write_tokens")),
    )
