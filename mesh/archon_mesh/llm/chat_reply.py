"""Reads replies of the chat completions API, whole or in chunks, in the forms that its many servers give them.

The forms that are read beside OpenAI's own: a choice without `delta`, or with `message` in a stream; content as a list
of parts; thinking in a field, in parts or in tags; tool calls without an index, with the same index for all, without
ids, with ids that are numbers or that repeat; arguments as an object; the older `function_call`; usage in other places;
an error in place of a reply. Anything else is an error with the server's words.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from archon.errors import Unavailable, UnknownFailure
from archon.failure_kinds import PROVIDER
from archon.json_text import json_object
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
from archon_mesh.llm.json_values import count_of, id_of, json_text_of, text_of
from archon_mesh.llm.kept_thinking import EXTRA, KeptThinking
from archon_mesh.llm.provider_errors import stream_error
from archon_mesh.llm.reply_text import ReplyText
from archon_mesh.llm.think_tags import without_thinking
from archon_mesh.llm.tool_names import ToolNames

NO_REPLY: Final = "the model endpoint's response is not a chat completion"

_FAILED: Final = ("error", "abort", "insufficient_system_resource")
"""Finish reasons of replies that the server gave up: OpenRouter's, vLLM's, DeepSeek's."""


@dataclass(slots=True)
class _Call:
    """A tool call that is being read."""

    key: object
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    extra: object = None

    @property
    def is_complete(self) -> bool:
        """Whether the arguments so far are a whole JSON object."""
        return json_object("".join(self.arguments)) is not None


class ChatReply:
    """One reply: `add` takes its chunks, or the whole of it."""

    def __init__(self, names: ToolNames, key: str = "") -> None:
        """`key` is removed from a server's error messages."""
        self._names = names
        self._key = key
        self._text: list[str] = []
        self._reply_text = ReplyText()
        self._thinking = KeptThinking()
        self._calls: list[_Call] = []
        self._usage: Mapping[str, Any] | None = None
        self._model = ""
        self._finish_reason = ""
        self._has_declined = False
        self._has_choice = False

    def add(self, data: object) -> Iterator[ModelChunk]:
        """Takes a decoded chunk, or a whole reply. Raises the error that the server reports in its place, and
        UnknownFailure if it is neither."""
        if isinstance(data, list) and len(data) == 1:
            data = data[0]  # Gemini's errors
        if data is None:
            return  # a sign of life between the chunks of some servers
        if not isinstance(data, Mapping):
            raise UnknownFailure(NO_REPLY)
        if data.get("choices") is None and isinstance(inner := data.get("provider"), Mapping):
            data = inner  # OpenRouter has put whole replies there
        choices = data.get("choices")
        if error := data.get("error"):
            raise _reported(error, data, self._key)
        self._usage = _usage_of(data) or self._usage
        self._model = text_of(data.get("model")) or self._model
        for choice in choices[:1] if isinstance(choices, list) else ():
            if isinstance(choice, Mapping):
                self._has_choice |= any(choice.get(name) for name in ("delta", "message", "finish_reason"))
                yield from self._choice(choice)

    def rest(self) -> Iterator[ModelChunk]:
        """Ends the text. Yields the text held back because a tag or a character seemed to begin there."""
        yield from self._split(*self._reply_text.end())

    def finish(self, request: ModelRequest, model: str, *, is_ended: bool) -> ModelReply:
        """Returns the whole reply. `is_ended`: the server said that it ends here, with or without a reason.

        Raises Unavailable if it ended before it was complete, and UnknownFailure if it was no reply.
        """
        if is_ended and not self._has_choice:
            raise UnknownFailure(NO_REPLY)
        if not self._finish_reason and not is_ended:
            raise Unavailable("the model's stream ended before the reply was complete", kind=PROVIDER)
        if self._finish_reason in _FAILED:
            raise Unavailable(
                f"the model endpoint ended its reply with an error (finish reason {self._finish_reason})", kind=PROVIDER
            )
        for _ in self.rest():
            pass
        text = without_thinking("".join(self._text))
        calls = self._tool_calls()
        if not text.strip() and not calls and request.output_schema is not None:
            # Some servers take an enforced answer for thinking.
            text = self._thinking.text if json_object(self._thinking.text) is not None else text
        finish_reason = self._finish_reason or ("tool_calls" if calls else "stop")
        if self._has_declined:
            finish_reason = DECLINED
        usage = _read_usage(self._usage) or estimate_usage(request, text, calls)
        if calls and self._is_cut(usage, request.max_tokens):
            finish_reason = LENGTH
        state = self._thinking.state([call.extra for call in self._ordered()]) if calls else None
        return ModelReply(text, calls, usage, self._model or model, finish_reason, state)

    def _is_cut(self, usage: Usage, limit: int | None) -> bool:
        """Whether the last call ends with the limit of the reply: servers report a cut call as a whole one."""
        return limit is not None and usage.output_tokens >= limit and not self._ordered()[-1].is_complete

    def _choice(self, choice: Mapping[str, Any]) -> Iterator[ModelChunk]:
        self._finish_reason = text_of(choice.get("finish_reason")) or self._finish_reason
        delta = choice.get("delta") or choice.get("message") or {}
        if not isinstance(delta, Mapping):
            return
        if thinking := self._thinking.add(delta):
            yield ModelChunk(thinking_delta=thinking)
        for thinking, text in _parts(delta.get("content")):
            if thinking:
                yield ModelChunk(thinking_delta=thinking)
            yield from self._answer(text)
        if refusal := text_of(delta.get("refusal")):
            self._has_declined = True
            yield from self._answer(refusal)
        calls = delta.get("tool_calls")
        parts = calls if isinstance(calls, list) else [calls] if isinstance(calls, Mapping) else []
        if isinstance(older := delta.get("function_call"), Mapping):
            parts = [*parts, {"index": 0, "function": older}]
        for part in parts:
            if isinstance(part, Mapping) and part.get("type") in (None, "", "function"):
                yield self._call(part)

    def _answer(self, text: str) -> Iterator[ModelChunk]:
        yield from self._split(*self._reply_text.feed(text))

    def _split(self, thinking: str, answer: str) -> Iterator[ModelChunk]:
        if thinking:
            yield ModelChunk(thinking_delta=thinking)
        if answer:
            self._text.append(answer)
            yield ModelChunk(text_delta=answer)

    def _call(self, part: Mapping[str, Any]) -> ModelChunk:
        function = part.get("function")
        function = function if isinstance(function, Mapping) else part
        name = text_of(function.get("name"))
        arguments = json_text_of(function.get("arguments"))
        call_id = id_of(part.get("id"))
        call = self._find(part.get("index"), call_id, name, arguments)
        given = self._names.original(name) if name and not call.name else ""
        call.name = call.name or given
        call.id = call.id or call_id
        call.extra = call.extra or part.get(EXTRA)
        if not (name and arguments and arguments == "".join(call.arguments)):  # else it repeats the call at its end
            call.arguments.append(arguments)
        return ModelChunk(tool_call_delta=ToolCallDelta(self._calls.index(call), call_id, given, arguments))

    def _find(self, index: object, call_id: str, name: str, arguments: str) -> _Call:
        """Returns the call that a part belongs to, a new one if none does.

        A part with another name, or with a name and another id, begins a new one whatever its index: some servers give
        all of them 0. Without ids, it does if the call so far is complete.
        """
        known = [call for call in self._calls if index is None or call.key == index]
        call = known[-1] if known else None
        if index is None and call_id:
            call = next((each for each in known if each.id == call_id), None if name else call)
        if call is not None and name and call.name:
            another = (call_id and call.id and call_id != call.id) or self._names.original(name) != call.name
            anew = not (call_id and call.id) and arguments.lstrip().startswith("{") and call.is_complete
            if another or (anew and arguments != "".join(call.arguments)):
                call = next((each for each in known if call_id and each.id == call_id), None)
        if call is None:
            call = _Call(index)
            self._calls.append(call)
        return call

    def _tool_calls(self) -> tuple[ToolCall, ...]:
        """Returns the calls in their order, each with an id of its own: results refer to calls by it."""
        taken: set[str] = set()
        calls: list[ToolCall] = []
        for call in self._ordered():
            call_id = call.id if call.id and call.id not in taken else f"call_{secrets.token_hex(12)}"
            taken.add(call_id)
            calls.append(ToolCall(call_id, call.name, "".join(call.arguments)))
        return tuple(calls)

    def _ordered(self) -> list[_Call]:
        return sorted(self._calls, key=lambda each: each.key if isinstance(each.key, int) else 0)


def _reported(error: object, data: Mapping[str, Any], key: str) -> Exception:
    inner = error if isinstance(error, Mapping) else {}
    words = " ".join(str(inner.get(name) or "") for name in ("type", "status", "code"))
    return stream_error(words.strip(), data, key)


def _parts(content: object) -> Iterator[tuple[str, str]]:
    """Yields the parts of a content as thinking and text."""
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str):
            yield "", part
        elif isinstance(part, Mapping):
            thinking = part.get("thinking") or part.get("reasoning")
            if thinking is not None:
                yield "".join(text for _, text in _parts(thinking)), ""
            else:
                yield "", text_of(part.get("text")) or text_of(part.get("refusal"))


def _usage_of(data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the usage of a chunk; Groq has it elsewhere."""
    other = data.get("x_groq")
    usage = data.get("usage") or (other.get("usage") if isinstance(other, Mapping) else None)
    return usage if isinstance(usage, Mapping) else None


def _read_usage(usage: Mapping[str, Any] | None) -> Usage | None:
    if usage is None:
        return None
    details = usage.get("prompt_tokens_details")
    details = details if isinstance(details, Mapping) else {}
    cached = count_of(details.get("cached_tokens")) or count_of(usage.get("prompt_cache_hit_tokens"))  # DeepSeek
    return Usage(
        count_of(usage.get("prompt_tokens")),
        count_of(usage.get("completion_tokens")),
        cached_input_tokens=cached,
        cache_write_tokens=count_of(details.get("cache_write_tokens")),
    )
