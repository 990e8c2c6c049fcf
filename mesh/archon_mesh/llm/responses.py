"""Client for the responses API of OpenAI."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from archon.errors import InvalidArgument
from archon_mesh.llm.base import ModelChunk, ModelReply, ModelRequest
from archon_mesh.llm.cache_key import FIELD, cache_key
from archon_mesh.llm.calibration import Calibration
from archon_mesh.llm.chunks import whole_reply
from archon_mesh.llm.endpoint import Endpoint, EndpointCall
from archon_mesh.llm.per_loop import PerLoop
from archon_mesh.llm.prices import find_price, with_cost
from archon_mesh.llm.responses_reply import ResponseAssembler
from archon_mesh.llm.responses_wire import has_reasoning, request_to_wire
from archon_mesh.llm.structured import json_schema_format
from archon_mesh.llm.tool_names import ToolNames

_REFUSED: Final = re.compile(r"(?i)text\.format|json_schema|response_format")
"""What the API says of a schema that it does not take."""

_log = logging.getLogger(__name__)


class ResponsesModel:
    """A model behind the responses API, which stores nothing: each request has the whole history.

    Address and key are those of OpenAIModel. `reasoning` is sent as it is, such as `{"summary": "auto"}` for summaries,
    which are streamed as thinking; None leaves it to the model's default. Reasoning is sent back encrypted, as it came.

    Raises Unauthenticated if the endpoint is OpenAI and there is no key, or if the key has characters that an HTTP
    header cannot carry.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        reasoning: Mapping[str, Any] | None = None,
    ) -> None:
        # Imported here, because it takes half a second and 16 MB.
        import openai

        self._model = model
        self._reasoning = dict(reasoning) if reasoning is not None else None
        self.price = find_price(f"openai/{model}")
        self.calibration = Calibration()
        self._endpoint = Endpoint(openai, "OPENAI", "OpenAI", base_url=base_url, api_key=api_key)
        address, key = self._endpoint.base_url, self._endpoint.key

        def create() -> Any:
            client = openai.AsyncOpenAI(api_key=key or "none", base_url=address, max_retries=0)
            _ = client.responses  # imports the rest of the package now, not in the event loop at the first call
            return client

        self._takes_schemas = True
        self._clients: PerLoop[Any] = PerLoop(create)

    provider = "openai"

    @property
    def model(self) -> str:
        return self._model

    async def generate(self, request: ModelRequest) -> ModelReply:
        return await whole_reply(self.stream(request))

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        names, call = ToolNames.of(request), self._endpoint.call(request)
        stream = await self._open(call, names.to_provider(request))
        response = ResponseAssembler(names, self._endpoint.key)
        async with aclosing(call.read_all(stream, response.add)) as pieces:
            async for piece in pieces:
                yield piece
        reply = response.finish(request, self._model)
        self.calibration.observe(request, reply)
        yield ModelChunk(reply=replace(reply, usage=with_cost(reply.usage, self.price)))

    async def close(self) -> None:
        await self._clients.close()

    async def _open(self, call: EndpointCall, request: ModelRequest) -> Any:
        """Starts the stream. If the API refuses the reasoning of earlier replies, it is left out: another model or
        account cannot decrypt it. If it refuses the schema of the answer, only the messages ask for it from then on."""
        try:
            return await call.step(self._clients.current.responses.create(**self._arguments(request, reasoning=True)))
        except InvalidArgument as error:
            if request.output_schema is not None and self._takes_schemas and _REFUSED.search(error.message):
                _log.info("%s refuses the JSON Schema of the answer; it is not sent any more: %s", self._model, error)
                self._takes_schemas = False
                return await self._open(call, request)
            is_refused = "encrypted" in error.message or "reasoning" in error.message
            if not is_refused or not has_reasoning(request):
                raise
            _log.info("%s refuses the reasoning of earlier replies; it is left out: %s", self._model, error)
            return await call.step(self._clients.current.responses.create(**self._arguments(request, reasoning=False)))

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
        return {"model": self._model, "stream": True, "store": False, "timeout": request.timeout, **arguments}
