"""Client for the chat completions API of OpenAI and compatible servers (vLLM, Ollama, ...)."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from archon.errors import InvalidArgument
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm.base import ModelChunk, ModelReply, ModelRequest
from archon_mesh.llm.cache_key import FIELD, cache_key
from archon_mesh.llm.chat_reply import NO_REPLY, ChatReply
from archon_mesh.llm.endpoint import Endpoint, EndpointCall
from archon_mesh.llm.endpoint_http import EndpointHttp, whole
from archon_mesh.llm.endpoint_model import EndpointModel
from archon_mesh.llm.kept_thinking import DETAILS, SERVER, TEXTS, thinking_to_wire
from archon_mesh.llm.openai_http import openai_http
from archon_mesh.llm.reply_stream import ReplyStream, decoded
from archon_mesh.llm.servers import find_profile, with_media
from archon_mesh.llm.servers.arrange import arrange
from archon_mesh.llm.servers.plain_schema import plain_schema
from archon_mesh.llm.structured import FinalAnswer, json_schema_format, strict_schema
from archon_mesh.llm.tool_names import ToolNames
from archon_mesh.llm.wire import content_to_wire, message_to_wire, sendable, tool_to_wire

if TYPE_CHECKING:
    import httpx2

_log = logging.getLogger(__name__)

RESPONSE_FORMAT: Final = "response_format"

OPTIONAL: Final = ("stream_options", "temperature", RESPONSE_FORMAT, FIELD, *TEXTS, DETAILS)
"""Fields of a request without which an answer is as good: those that a server refuses by name are left out."""

_UNKNOWN = re.compile(
    r"(?i)unsupported|(?:not|n't) support|unrecogni|unknown|unexpected|not permitted|not allowed|extra (?:input|field)"
)
"""The messages of servers about a field that they do not take at all."""

_REFUSED_SCHEMA = re.compile(r"(?i)response[_ ]format|(?:json|response)[_ ]?schema|structured|guided|grammar")
"""The messages of servers that cannot enforce a schema, or any at all."""

_NO_JSON = re.compile(r"(?i)failed to \w+ json|json_validate_failed")
"""The message of Groq if the model did not keep to the response format: a reply without one may be read."""

VARIABLE: Final = "OPENAI_SERVER"
"""The variable with the family of servers that the endpoint belongs to."""

MEDIA: Final = "OPENAI_MEDIA"
"""The variable with the files that its models take, separated by commas: image, audio, file, or media types."""

SCHEMA: Final = "json_schema"
STRICT: Final = "strict"
"""The response format with a schema, and its mark that the schema is enforced in full."""

LIMITS: Final = ("max_tokens", "max_completion_tokens")
"""The older and the newer name of the limit of a reply."""


class OpenAIModel(EndpointModel[EndpointHttp]):
    """A model behind the chat completions API.

    `base_url` defaults to OPENAI_BASE_URL, then to OpenAI; `api_key` defaults to OPENAI_API_KEY, which is optional for
    other servers. `server` is the family of servers that the endpoint belongs to, or single keys of its profile
    (`archon_mesh.llm.servers`); it defaults to OPENAI_SERVER, its `media` to OPENAI_MEDIA, and omitted keys follow from
    URL and model.

    Raises Unauthenticated if the endpoint is OpenAI and there is no key, or if the key has characters that an HTTP
    header cannot carry, and InvalidArgument for an unknown family or key.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        server: str | Mapping[str, Any] | None = None,
    ) -> None:
        self._refused: set[str] = set()
        """Optional fields that the endpoint has refused."""
        self._endpoint = Endpoint("OPENAI", "OpenAI", base_url=base_url, api_key=api_key)
        chosen = with_media(server or os.environ.get(VARIABLE) or None, os.environ.get(MEDIA, ""))
        self.profile = find_profile(self._endpoint.base_url, model, chosen)
        self._limit: str = self.profile.length
        super().__init__("openai", model, self.profile, lambda: openai_http(self._endpoint, "/chat/completions"))

    @override
    async def generate(self, request: ModelRequest) -> ModelReply:
        if (final := self._final_answer(request)) is not None:
            return final.reply(await self._generate(final.request))
        return await self._generate(request)

    @override
    def _final_answer(self, request: ModelRequest) -> FinalAnswer | None:
        """Returns the tool for an answer with a schema, if the request has tools and the server takes no response
        format besides: most would enforce it on replies that call tools, too."""
        if request.output_schema is None or not request.tools or request.is_json or self._enforces(request):
            return None
        return FinalAnswer(request)

    async def _generate(self, request: ModelRequest) -> ModelReply:
        names, call = ToolNames.of(request), self._endpoint.call(request)
        named = names.to_provider(request)
        response = await self._files.sent(
            named, lambda fitted: self._begin(call, request, lambda: self._arguments(fitted))
        )
        reply = ChatReply(names, self._endpoint.key)
        try:
            content = await call.step(whole(response))
        finally:
            await response.aclose()
        call.read(reply.add, decoded(content, NO_REPLY))
        return self._accounted(reply.finish(request, self._model, is_ended=True), request)

    @override
    async def _start(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        names, call = ToolNames.of(request), self._endpoint.call(request)
        named = self._files.fit(names.to_provider(request))
        response = await self._begin(
            call, request, lambda: {**self._arguments(named), "stream": True, **self._stream_options()}
        )
        reply = ChatReply(names, self._endpoint.key)
        stream = ReplyStream(call, response, NO_REPLY)
        return stream.read(reply, lambda event: reply.add(event.data), request, self._model)

    async def _begin(
        self, call: EndpointCall, request: ModelRequest, body: Callable[[], dict[str, Any]]
    ) -> httpx2.Response:
        """Sends a request, and again without each optional field that the endpoint says it does not know."""
        while True:
            try:
                return await call.step(self._clients.current.post(body(), request.timeout))
            except InvalidArgument as error:
                if self._renames_limit(str(error)) or self._loosens_format(str(error), request):
                    continue
                if (refused := self._optional_in(str(error))) is None:
                    raise
                _log.info("%s: the endpoint refuses %s; it is not sent any more", self._model, refused)
                self._refused.add(refused)

    def _renames_limit(self, words: str) -> bool:
        """Whether an endpoint refuses the name of the reply's limit and names the other one, which is used from then
        on."""
        other = LIMITS[self._limit == LIMITS[0]]
        if self._limit not in words or other not in words or other in self._refused:
            return False
        _log.info("%s: the endpoint takes %s in place of %s", self._model, other, self._limit)
        self._refused.add(self._limit)
        self._limit = other
        return True

    def _loosens_format(self, words: str, request: ModelRequest) -> bool:
        """Whether an endpoint refuses the schema of an answer, which is then sent as one that is not strict, or not any
        more, or whether it has no JSON to reply: the messages ask for it in words."""
        if _NO_JSON.search(words) and self._response_format(request):
            self._refused.add(RESPONSE_FORMAT)
            return True
        if not self._enforces(request) or not _REFUSED_SCHEMA.search(words):
            return False
        is_strict = request.output_schema is not None and strict_schema(request.output_schema) is not None
        is_strict = is_strict and self.profile.schemas != "plain"
        refused = STRICT if is_strict and STRICT not in self._refused else SCHEMA
        _log.info("%s: the endpoint refuses the JSON Schema of the answer (%s): %s", self._model, refused, words)
        self._refused.add(refused)
        return True

    def _enforces(self, request: ModelRequest) -> bool:
        """Whether the schema of the answer is sent as the response format."""
        is_taken = not self._refused & {RESPONSE_FORMAT, SCHEMA} and "schema" in self.profile.json_replies
        return request.output_schema is not None and is_taken and (not request.tools or self.profile.json_with_tools)

    def _response_format(self, request: ModelRequest) -> dict[str, Any]:
        if RESPONSE_FORMAT in self._refused:
            return {}
        if request.output_schema is not None and self._enforces(request):
            schema, is_strict = request.output_schema, STRICT not in self._refused
            if self.profile.schemas == "plain":
                schema, is_strict = plain_schema(schema), False
            return {RESPONSE_FORMAT: {"type": SCHEMA, SCHEMA: json_schema_format(schema, strict=is_strict)}}
        wants_object = (request.is_json or request.output_schema is not None) and not request.tools
        is_taken = wants_object and "object" in self.profile.json_replies
        return {RESPONSE_FORMAT: {"type": "json_object"}} if is_taken else {}

    def _optional_in(self, words: str) -> str | None:
        """Returns the optional field that an endpoint refuses by name, if requests still have it. A temperature that
        it refuses is the caller's mistake, unless it takes none."""
        if "missing" in words.lower():
            return None
        left = [field for field in OPTIONAL if field in words and field not in self._refused]
        return next((field for field in left if field != "temperature" or _UNKNOWN.search(words)), None)

    def _stream_options(self) -> dict[str, Any]:
        is_taken = self.profile.stream_options and "stream_options" not in self._refused
        return {"stream_options": {"include_usage": True}} if is_taken else {}

    def _arguments(self, request: ModelRequest) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "model": self._model,
            "messages": [self._to_wire(message) for message in arrange(request.messages, self.profile)],
        }
        if request.tools:
            tools = [tool_to_wire(tool) for tool in request.tools]
            if self.profile.schemas == "plain":
                for tool in tools:
                    tool["function"]["parameters"] = plain_schema(tool["function"]["parameters"])
            arguments["tools"] = tools
            if self.profile.cache_key and FIELD not in self._refused:
                arguments[FIELD] = cache_key(request)
        if request.temperature is not None and self.profile.temperature and "temperature" not in self._refused:
            arguments["temperature"] = request.temperature
        if request.max_tokens is not None:
            arguments[self._limit] = request.max_tokens
        return arguments | self._response_format(request)

    def _to_wire(self, message: ChatMessage) -> dict[str, Any]:
        wire = message_to_wire(_sendable(message))
        if message.files:
            wire["content"] = content_to_wire(message)
        if message.tool_calls:
            thinking_to_wire(message, wire, self.profile, {*self.profile.reasoning} - self._refused)
        return wire

    @override
    def _accounted(self, reply: ModelReply, request: ModelRequest) -> ModelReply:
        state = {**reply.provider_state, SERVER: self.profile.family} if reply.provider_state else None
        return replace(super()._accounted(reply, request), provider_state=state)


def _sendable(message: ChatMessage) -> ChatMessage:
    calls = tuple(map(sendable, message.tool_calls))
    return message if calls == message.tool_calls else replace(message, tool_calls=calls)
