"""Client for the chat completions API of OpenAI and compatible servers (vLLM, Ollama, ...)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from archon.errors import Unavailable, UnknownFailure
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm.base import (
    DECLINED,
    ModelChunk,
    ModelReply,
    ModelRequest,
    ToolCallDelta,
    Usage,
    estimate_usage,
)
from archon_mesh.llm.calibration import Calibration
from archon_mesh.llm.endpoint import Endpoint
from archon_mesh.llm.prices import find_price, with_cost
from archon_mesh.llm.tool_names import ToolNames
from archon_mesh.llm.wire import message_to_wire, tool_to_wire

if TYPE_CHECKING:
    from openai.types import CompletionUsage
    from openai.types.chat import ChatCompletion, ChatCompletionChunk
    from openai.types.chat.chat_completion_chunk import ChoiceDelta


class OpenAIModel:
    """A model behind the chat completions API.

    `base_url` defaults to OPENAI_BASE_URL, then to OpenAI; `api_key` defaults to OPENAI_API_KEY, which is optional for
    other servers. Raises Unauthenticated if the endpoint is OpenAI and there is no key, or if the key has characters
    that an HTTP header cannot carry.
    """

    def __init__(self, model: str, *, base_url: str | None = None, api_key: str | None = None) -> None:
        # Imported here, because it takes half a second and 16 MB.
        import openai

        self._model = model
        self.price = find_price(f"openai/{model}")
        self.calibration = Calibration()
        self._endpoint = Endpoint(openai, "OPENAI", "OpenAI", base_url=base_url, api_key=api_key)
        address, key = self._endpoint.base_url, self._endpoint.key
        self._limit = "max_completion_tokens" if address is None else "max_tokens"
        self._client = openai.AsyncOpenAI(api_key=key or "none", base_url=address, max_retries=0)
        # Imports the rest of the package now, instead of in the event loop at the first call.
        self._completions = self._client.chat.completions

    provider = "openai"

    @property
    def model(self) -> str:
        return self._model

    async def generate(self, request: ModelRequest) -> ModelReply:
        names, call = ToolNames.of(request), self._endpoint.call(request)
        completion = await call.step(self._completions.create(**self._arguments(names.to_provider(request))))
        return self._reply(completion, names, request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        names, call = ToolNames.of(request), self._endpoint.call(request)
        arguments = self._arguments(names.to_provider(request))
        start = self._completions.create(**arguments, stream=True, stream_options={"include_usage": True})
        stream = await call.step(start)
        reply = _ReplyAssembler(names)
        try:
            if "json" in stream.response.headers.get("content-type", ""):  # the server does not stream
                body = await call.step(stream.response.aread())
                whole = self._reply(_completion(body), names, request)
                yield ModelChunk(text_delta=whole.text, reply=whole)
                return
            chunks = aiter(stream)
            while (chunk := await call.step(anext(chunks, None))) is not None:
                for piece in reply.add(chunk):
                    yield piece
        finally:
            await stream.close()
        yield ModelChunk(reply=self._accounted(reply.finish(request, self._model), request))

    async def close(self) -> None:
        await self._client.close()

    def _reply(self, completion: ChatCompletion, names: ToolNames, request: ModelRequest) -> ModelReply:
        """Converts a whole reply. Raises UnknownFailure if it has none."""
        if not getattr(completion, "choices", None):
            raise UnknownFailure("the model endpoint's response is not a chat completion")
        choice = completion.choices[0]
        text = choice.message.content or choice.message.refusal or ""
        calls = tuple(
            ToolCall(call.id, names.original(call.function.name), call.function.arguments)
            for call in choice.message.tool_calls or ()
            if call.type == "function"
        )
        finish_reason: str | None = choice.finish_reason  # some servers send none
        if choice.message.refusal:
            finish_reason = DECLINED
        usage = _usage(completion.usage, request, text, calls)
        reply = ModelReply(text, calls, usage, completion.model or self._model, finish_reason or "stop")
        return self._accounted(reply, request)

    def _arguments(self, request: ModelRequest) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "model": self._model,
            "messages": [message_to_wire(message) for message in request.messages],
            "timeout": request.timeout,
        }
        if request.tools:
            arguments["tools"] = [tool_to_wire(tool) for tool in request.tools]
        if request.temperature is not None:
            arguments["temperature"] = request.temperature
        if request.max_tokens is not None:
            arguments[self._limit] = request.max_tokens
        if request.is_json and self._endpoint.base_url is None:  # other servers may not know it
            arguments["response_format"] = {"type": "json_object"}
        return arguments

    def _accounted(self, reply: ModelReply, request: ModelRequest) -> ModelReply:
        self.calibration.observe(request, reply)
        return replace(reply, usage=with_cost(reply.usage, self.price))


class _ReplyAssembler:
    """Assembles a reply from the chunks of a stream."""

    def __init__(self, names: ToolNames) -> None:
        self._names = names
        self._text: list[str] = []
        self._calls: dict[int, tuple[list[str], list[str], list[str]]] = {}
        self._usage: CompletionUsage | None = None
        self._model = ""
        self._finish_reason = ""
        self._has_declined = False

    def add(self, chunk: ChatCompletionChunk) -> Iterator[ModelChunk]:
        self._usage = chunk.usage or self._usage
        self._model = chunk.model or self._model
        # The chunk with the usage has no choices.
        for choice in (chunk.choices or [])[:1]:
            self._finish_reason = choice.finish_reason or self._finish_reason
            if thinking := _thinking(choice.delta):
                yield ModelChunk(thinking_delta=thinking)
            text = choice.delta.content or choice.delta.refusal
            self._has_declined |= bool(choice.delta.refusal)
            if text:
                self._text.append(text)
                yield ModelChunk(text_delta=text)
            for part in choice.delta.tool_calls or []:
                name = self._names.original((part.function and part.function.name) or "")
                arguments = (part.function and part.function.arguments) or ""
                call = self._calls.setdefault(part.index, ([], [], []))
                for pieces, piece in zip(call, (part.id or "", name, arguments), strict=True):
                    pieces.append(piece)
                yield ModelChunk(tool_call_delta=ToolCallDelta(part.index, part.id or "", name, arguments))

    def finish(self, request: ModelRequest, model: str) -> ModelReply:
        """Returns the whole reply. Raises Unavailable if the stream ended before it was complete."""
        if not self._finish_reason:
            raise Unavailable("the model's stream ended before the reply was complete")
        text = "".join(self._text)
        calls = tuple(
            ToolCall(next(filter(None, ids), ""), next(filter(None, names), ""), "".join(arguments))
            for _, (ids, names, arguments) in sorted(self._calls.items())
        )
        usage = _usage(self._usage, request, text, calls)
        finish_reason = DECLINED if self._has_declined else self._finish_reason
        return ModelReply(text, calls, usage, self._model or model, finish_reason)


def _completion(body: bytes) -> ChatCompletion:
    """Reads a whole reply. Servers leave out what they have no use for."""
    from openai.types.chat import ChatCompletion

    try:
        data = json.loads(body)
        choices = [{"index": 0, "finish_reason": "stop", **choice} for choice in data["choices"]]
        for choice in choices:
            choice["message"] = {"role": "assistant", **choice["message"]}
        known = {"id": "", "created": 0, "model": "", "object": "chat.completion", **data, "choices": choices}
        return ChatCompletion.model_validate(known)
    except (ValueError, LookupError, TypeError, RecursionError):
        raise UnknownFailure("the model endpoint's response is not a chat completion") from None


def _thinking(delta: ChoiceDelta) -> str:
    """Returns the thinking of a chunk: not part of OpenAI's API, some servers send it under one of two names."""
    extra = delta.model_extra or {}
    thinking = extra.get("reasoning_content") or extra.get("reasoning")
    return thinking if isinstance(thinking, str) else ""


def _usage(usage: CompletionUsage | None, request: ModelRequest, text: str, calls: tuple[ToolCall, ...]) -> Usage:
    if usage is None:
        return estimate_usage(request, text, calls)
    details = usage.prompt_tokens_details
    cached = getattr(details, "cached_tokens", None) or 0
    written = getattr(details, "cache_write_tokens", None) or 0
    return Usage(
        usage.prompt_tokens or 0, usage.completion_tokens or 0, cached_input_tokens=cached, cache_write_tokens=written
    )
