"""Client for the responses API of OpenAI."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from archon.errors import InvalidArgument
from archon_mesh.llm.base import ModelChunk, ModelRequest
from archon_mesh.llm.cache_key import FIELD, cache_key
from archon_mesh.llm.endpoint import Endpoint, EndpointCall
from archon_mesh.llm.endpoint_http import EndpointHttp
from archon_mesh.llm.endpoint_model import EndpointModel
from archon_mesh.llm.media import MediaProfile
from archon_mesh.llm.openai_http import openai_http
from archon_mesh.llm.reply_stream import ReplyStream
from archon_mesh.llm.responses_reply import NO_REPLY, ResponseReply
from archon_mesh.llm.responses_wire import has_reasoning, request_to_wire
from archon_mesh.llm.servers import find_media
from archon_mesh.llm.structured import FinalAnswer, json_schema_format
from archon_mesh.llm.tool_names import ToolNames

if TYPE_CHECKING:
    import httpx2

MEDIA: Final = MediaProfile(media=("image", "file"), media_urls=("image", "file"))
"""The files that models behind the API take."""

_REFUSED: Final = re.compile(r"(?i)text\.format|json_schema|response_format")
"""The messages of the API about a schema that it does not take."""

_log = logging.getLogger(__name__)


class ResponsesModel(EndpointModel[EndpointHttp]):
    """A model behind the responses API, which stores nothing: each request has the whole history.

    Address and key are as in OpenAIModel. `reasoning` is sent as it is, such as `{"summary": "auto"}` for summaries,
    which are streamed as thinking; None leaves it to the model's default. Reasoning is sent back encrypted, as it came.
    `server` are keys of MediaProfile that replace the ones of MEDIA.

    Raises Unauthenticated if the endpoint is OpenAI and there is no key, or if the key has characters that an HTTP
    header cannot carry, and InvalidArgument for an unknown key.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        reasoning: Mapping[str, Any] | None = None,
        server: Mapping[str, Any] | None = None,
    ) -> None:
        self._reasoning = dict(reasoning) if reasoning is not None else None
        self._endpoint = Endpoint("OPENAI", "OpenAI", base_url=base_url, api_key=api_key)
        self._takes_schemas = True
        media = find_media(server, MEDIA)
        super().__init__("openai", model, media, lambda: openai_http(self._endpoint, "/responses"))

    @override
    async def _start(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        names, call = ToolNames.of(request), self._endpoint.call(request)
        response = await self._open(call, self._files.fit(names.to_provider(request)))
        reply = ResponseReply(names, self._endpoint.key)
        return ReplyStream(call, response, NO_REPLY).read(reply, reply.add, request, self._model)

    @override
    def _final_answer(self, request: ModelRequest) -> FinalAnswer | None:
        return None

    async def _open(self, call: EndpointCall, request: ModelRequest) -> httpx2.Response:
        """Starts the stream. If the API refuses the reasoning of earlier replies, it is left out: another model or
        account cannot decrypt it. If it refuses the schema of the answer, only the messages ask for it from then on."""
        try:
            return await self._post(call, request, reasoning=True)
        except InvalidArgument as error:
            if request.output_schema is not None and self._takes_schemas and _REFUSED.search(error.message):
                _log.info("%s refuses the JSON Schema of the answer; it is not sent any more: %s", self._model, error)
                self._takes_schemas = False
                return await self._open(call, request)
            is_refused = "encrypted" in error.message or "reasoning" in error.message
            if not is_refused or not has_reasoning(request):
                raise
            _log.info("%s refuses the reasoning of earlier replies; it is left out: %s", self._model, error)
            return await self._post(call, request, reasoning=False)

    async def _post(self, call: EndpointCall, request: ModelRequest, *, reasoning: bool) -> httpx2.Response:
        body = self._arguments(request, reasoning=reasoning)
        return await call.step(self._clients.current.post(body, request.timeout))

    def _text_format(self, request: ModelRequest) -> dict[str, Any] | None:
        if request.output_schema is not None and self._takes_schemas:
            return {"type": "json_schema", **json_schema_format(request.output_schema, strict=True)}
        # An object need not be the reply if there are tools.
        is_object = (request.is_json or request.output_schema is not None) and not request.tools
        return {"type": "json_object"} if is_object else None

    def _arguments(self, request: ModelRequest, *, reasoning: bool) -> dict[str, Any]:
        arguments = request_to_wire(request, reasoning=reasoning)
        if self._reasoning is not None:
            arguments["reasoning"] = self._reasoning
        if request.temperature is not None:
            arguments["temperature"] = request.temperature
        if request.max_tokens is not None:
            arguments["max_output_tokens"] = request.max_tokens
        if request.tools and self._endpoint.base_url is None:
            arguments[FIELD] = cache_key(request)
        if self._endpoint.base_url is None and (form := self._text_format(request)):  # other servers may not know it
            arguments["text"] = {"format": form}
        return {"model": self._model, "stream": True, "store": False, **arguments}
