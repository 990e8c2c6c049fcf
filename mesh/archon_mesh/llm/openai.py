"""Chat completions over HTTP: OpenAI, and whatever speaks its API (vLLM, Ollama, ...)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from archon.errors import DeadlineExceeded, Unauthenticated, Unavailable, UnknownFailure
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm.base import (
    ModelChunk,
    ModelReply,
    ModelRequest,
    ToolCallDelta,
    Usage,
    estimate_usage,
)
from archon_mesh.llm.openai_errors import to_archon_error
from archon_mesh.llm.wire import message_to_wire, tool_to_wire

if TYPE_CHECKING:
    from openai.types import CompletionUsage
    from openai.types.chat import ChatCompletionChunk
    from openai.types.chat.chat_completion_chunk import ChoiceDelta

T = TypeVar("T")


class OpenAIModel:
    """A model behind the chat completions API.

    `base_url` falls back to OPENAI_BASE_URL, then to OpenAI; `api_key` to OPENAI_API_KEY, which other servers
    may do without. Raises Unauthenticated where OpenAI is meant and there is no key, or none that can travel.
    """

    def __init__(self, model: str, *, base_url: str | None = None, api_key: str | None = None) -> None:
        # Imported here: it takes half a second and 16 MB, which only those pay who use it.
        from openai import AsyncOpenAI

        self._model = model
        base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        self._key = (api_key or os.environ.get("OPENAI_API_KEY") or "").strip()
        if not self._key and base_url is None:
            raise Unauthenticated("OpenAI needs a key: set OPENAI_API_KEY, or OPENAI_BASE_URL for another.")
        if not (self._key.isascii() and self._key.isprintable()):
            raise Unauthenticated("The key has characters that no HTTP header can carry.")
        self._limit = "max_completion_tokens" if base_url is None else "max_tokens"
        self._client = AsyncOpenAI(api_key=self._key or "none", base_url=base_url, max_retries=0)
        # Loads the rest of the package now, and not in the event loop at the first call.
        self._completions = self._client.chat.completions

    @property
    def model(self) -> str:
        return self._model

    async def generate(self, request: ModelRequest) -> ModelReply:
        with self._mapped_errors(request):
            async with asyncio.timeout(request.timeout):
                answer = await self._completions.create(**self._arguments(request))
        if not getattr(answer, "choices", None):
            raise UnknownFailure("The model endpoint answered with something that is no chat completion.")
        choice = answer.choices[0]
        text = choice.message.content or choice.message.refusal or ""
        calls = tuple(
            ToolCall(call.id, call.function.name, call.function.arguments)
            for call in choice.message.tool_calls or ()
            if call.type == "function"
        )
        return ModelReply(
            text=text,
            tool_calls=calls,
            usage=_usage(answer.usage, request, text, calls),
            model=answer.model or self._model,
            finish_reason=choice.finish_reason or "stop",
        )

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        arguments = self._arguments(request)
        # The time left and not a timeout per read: a server that drips must end as well. Not one block around
        # the whole: the time between chunks is the consumer's, and a timeout may not span a yield.
        deadline = asyncio.get_running_loop().time() + request.timeout

        start = self._completions.create(**arguments, stream=True, stream_options={"include_usage": True})
        stream = await self._in_time(start, request, deadline)
        reply = _Assembly()
        try:
            chunks = aiter(stream)
            while (chunk := await self._in_time(anext(chunks, None), request, deadline)) is not None:
                for piece in reply.add(chunk):
                    yield piece
        finally:
            await stream.close()
        yield ModelChunk(reply=reply.finish(request, self._model))

    async def close(self) -> None:
        await self._client.close()

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
        return arguments

    async def _in_time(self, step: Awaitable[T], request: ModelRequest, deadline: float) -> T:
        with self._mapped_errors(request):
            async with asyncio.timeout_at(deadline):
                return await step

    @contextmanager
    def _mapped_errors(self, request: ModelRequest) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            raise DeadlineExceeded(f"The model did not answer within {request.timeout:g} s.") from None
        except Exception as error:  # noqa: BLE001 -- all of them are raised again, as ours
            # `from None`: what the package raised may hold the key, and would be printed with ours.
            raise to_archon_error(error, self._key) from None


class _Assembly:
    """Puts the pieces of a stream together."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._calls: dict[int, tuple[list[str], list[str], list[str]]] = {}
        self._usage: CompletionUsage | None = None
        self._model = ""
        self._finish_reason = ""

    def add(self, chunk: ChatCompletionChunk) -> Iterator[ModelChunk]:
        self._usage = chunk.usage or self._usage
        self._model = chunk.model or self._model
        # The chunk with the usage has no choices.
        for choice in (chunk.choices or [])[:1]:
            self._finish_reason = choice.finish_reason or self._finish_reason
            if thought := _thought(choice.delta):
                yield ModelChunk(thinking_delta=thought)
            text = choice.delta.content or choice.delta.refusal
            if text:
                self._text.append(text)
                yield ModelChunk(text_delta=text)
            for part in choice.delta.tool_calls or []:
                name = (part.function and part.function.name) or ""
                arguments = (part.function and part.function.arguments) or ""
                call = self._calls.setdefault(part.index, ([], [], []))
                for known, piece in zip(call, (part.id or "", name, arguments), strict=True):
                    known.append(piece)
                yield ModelChunk(tool_call_delta=ToolCallDelta(part.index, part.id or "", name, arguments))

    def finish(self, request: ModelRequest, model: str) -> ModelReply:
        """The whole reply. Raises Unavailable where the stream ended before it did."""
        if not self._finish_reason:
            raise Unavailable("The model's stream was cut off before the reply was complete.")
        text = "".join(self._text)
        calls = tuple(
            ToolCall(next(filter(None, ids), ""), next(filter(None, names), ""), "".join(arguments))
            for _, (ids, names, arguments) in sorted(self._calls.items())
        )
        usage = _usage(self._usage, request, text, calls)
        return ModelReply(text, calls, usage, self._model or model, self._finish_reason)


def _thought(delta: ChoiceDelta) -> str:
    """What servers that show it send beside OpenAI's own fields, under one of two names."""
    extra = delta.model_extra or {}
    thought = extra.get("reasoning_content") or extra.get("reasoning")
    return thought if isinstance(thought, str) else ""


def _usage(usage: CompletionUsage | None, request: ModelRequest, text: str, calls: tuple[ToolCall, ...]) -> Usage:
    if usage is None:
        return estimate_usage(request, text, calls)
    return Usage(usage.prompt_tokens or 0, usage.completion_tokens or 0)
