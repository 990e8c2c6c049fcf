"""Client for the own API of a provider, through the package pydantic-ai-slim."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from archon.errors import Unavailable
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
from archon_mesh.llm.endpoint import EndpointCall
from archon_mesh.llm.endpoint_model import EndpointModel
from archon_mesh.llm.extras import import_extra
from archon_mesh.llm.media import MediaProfile
from archon_mesh.llm.servers import find_media
from archon_mesh.llm.tool_names import ToolNames

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.settings import ModelSettings


EXTRA: Final = "providers"

_FINISH_REASONS: Final = {"stop": "stop", "length": LENGTH, "content_filter": DECLINED, "tool_call": "tool_calls"}


class NativeModel(EndpointModel[Any]):
    """A model behind the own API of `provider`: google, mistral or bedrock.

    `api_key` and `base_url` default to the variables of the provider; `server` are keys of MediaProfile. Thinking is
    streamed, and goes back with its signatures, as the APIs require between a tool call and its result.

    Raises FailedPrecondition if the package is not installed, Unauthenticated if there is no key, and InvalidArgument
    for an invalid base URL or settings that the provider cannot be used with.
    """

    def __init__(
        self,
        provider: str,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        server: Mapping[str, Any] | None = None,
    ) -> None:
        import_extra("pydantic_ai", EXTRA)
        from archon_mesh.llm.native.clients import PROVIDERS

        found = PROVIDERS[provider]
        media = find_media(server, MediaProfile(media=found.media, media_urls=()))
        self._key, url = found.key(api_key), found.url(base_url)
        super().__init__(provider, model, media, lambda: found.create(model, self._key, url))

    @override
    async def _start(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        return self._read(request)

    async def _read(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        from pydantic_ai.direct import model_request_stream

        from archon_mesh.llm.native.errors import to_error
        from archon_mesh.llm.native.messages import to_messages, to_parameters

        names = ToolNames.of(request)
        named, call = self._files.fit(names.to_provider(request)), EndpointCall(self._key, request, to_error)
        streaming = model_request_stream(
            self._clients.current.model,
            to_messages(named.messages, self.provider),
            model_settings=self._settings(request),
            model_request_parameters=to_parameters(named.tools),
            instrument=False,
        )
        calls: dict[int, int] = {}
        async with AsyncExitStack() as stack:
            reply = await call.step(stack.enter_async_context(streaming))
            events = aiter(reply)
            while (event := await call.step(anext(events, None))) is not None:
                for chunk in call.read(lambda each: _chunks(each, names, calls), event):
                    yield chunk
            response = reply.get()
        yield ModelChunk(reply=self._reply(request, response, names))

    def _settings(self, request: ModelRequest) -> ModelSettings:
        settings: ModelSettings = {}
        if self.provider != "bedrock":  # its client has them
            settings |= {"timeout": request.timeout, "max_retries": 0}
        if request.temperature is not None:
            settings["temperature"] = request.temperature
        if request.max_tokens is not None:
            settings["max_tokens"] = request.max_tokens
        return settings

    def _reply(self, request: ModelRequest, response: ModelResponse, names: ToolNames) -> ModelReply:
        from pydantic_ai.messages import TextPart, ToolCallPart

        from archon_mesh.llm.native.messages import state_of

        if response.state == "incomplete" or response.finish_reason == "error":
            raise Unavailable("the model's stream ended before the reply was complete", kind=PROVIDER_FAILURE)
        text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
        calls = tuple(
            ToolCall(part.tool_call_id, names.original(part.tool_name), part.args_as_json_str())
            for part in response.parts
            if isinstance(part, ToolCallPart)
        )
        used = response.usage
        usage = Usage(
            used.input_tokens,
            used.output_tokens,
            cached_input_tokens=used.cache_read_tokens,
            cache_write_tokens=used.cache_write_tokens,
        )
        if not used.input_tokens and not used.output_tokens:
            usage = estimate_usage(request, text, calls)
        reason = _FINISH_REASONS.get(response.finish_reason or "", "tool_calls" if calls else "stop")
        if calls and reason == "stop":  # Gemini says so of replies with calls too
            reason = "tool_calls"
        state = state_of(response, self.provider)
        return ModelReply(text, calls, usage, response.model_name or self._model, reason, state)


def _chunks(event: Any, names: ToolNames, calls: dict[int, int]) -> Iterator[ModelChunk]:
    """Yields the chunks of an event; `calls` are the numbers of the tool calls by the index of their part."""
    from pydantic_ai.messages import (
        PartDeltaEvent,
        PartStartEvent,
        TextPart,
        TextPartDelta,
        ThinkingPart,
        ThinkingPartDelta,
        ToolCallPart,
        ToolCallPartDelta,
    )

    match event:
        case PartStartEvent(part=TextPart(content=text)) if text:
            yield ModelChunk(text_delta=text)
        case PartStartEvent(part=ThinkingPart(content=text)) if text:
            yield ModelChunk(thinking_delta=text)
        case PartStartEvent(part=ToolCallPart() as part, index=index):
            number = calls.setdefault(index, len(calls))
            arguments = part.args_as_json_str() if part.args else ""
            name = names.original(part.tool_name)
            yield ModelChunk(tool_call_delta=ToolCallDelta(number, part.tool_call_id, name, arguments))
        case PartDeltaEvent(delta=TextPartDelta(content_delta=text)) if text:
            yield ModelChunk(text_delta=text)
        case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=text)) if text:
            yield ModelChunk(thinking_delta=text)
        case PartDeltaEvent(delta=ToolCallPartDelta(args_delta=str(arguments)), index=index) if arguments:
            number = calls.setdefault(index, len(calls))
            yield ModelChunk(tool_call_delta=ToolCallDelta(number, arguments_delta=arguments))
        case _:
            yield ModelChunk()
