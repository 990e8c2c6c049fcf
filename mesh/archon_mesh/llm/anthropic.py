"""Client for the Messages API of Anthropic."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from archon.errors import InvalidArgument
from archon_mesh.llm.anthropic_reply import MessageAssembler
from archon_mesh.llm.anthropic_wire import has_thinking, request_to_wire
from archon_mesh.llm.base import ModelChunk, ModelReply, ModelRequest
from archon_mesh.llm.calibration import Calibration
from archon_mesh.llm.chunks import whole_reply
from archon_mesh.llm.endpoint import Endpoint, EndpointCall
from archon_mesh.llm.extras import import_extra
from archon_mesh.llm.per_loop import PerLoop
from archon_mesh.llm.prices import find_price, with_cost
from archon_mesh.llm.structured import FinalAnswer
from archon_mesh.llm.tool_names import ToolNames

MAX_TOKENS: Final = 32_000
"""Tokens of a reply, thinking included, if the request sets no limit: the API requires one."""

_log = logging.getLogger(__name__)


class AnthropicModel:
    """A model behind the Messages API.

    `base_url` defaults to ANTHROPIC_BASE_URL, then to Anthropic; `api_key` defaults to ANTHROPIC_API_KEY, which is
    optional for other servers. `thinking` is sent as it is, None leaves it to the model's default. Thinking is
    streamed, and sent back with its signature, as the API requires between a tool call and its result.

    Raises FailedPrecondition if the package anthropic is not installed, and Unauthenticated if the endpoint is
    Anthropic and there is no key, or if the key has characters that an HTTP header cannot carry.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        thinking: Mapping[str, Any] | None = None,
    ) -> None:
        # Imported here, because it is optional, and takes half a second.
        package = import_extra("anthropic", "anthropic")
        self._model = model
        self._thinking = dict(thinking) if thinking is not None else None
        self.price = find_price(f"anthropic/{model}")
        self.calibration = Calibration()
        self._endpoint = Endpoint(package, "ANTHROPIC", "Anthropic", base_url=base_url, api_key=api_key)
        address, key = self._endpoint.base_url, self._endpoint.key

        def create() -> Any:
            client = package.AsyncAnthropic(api_key=key or "none", base_url=address, max_retries=0)
            _ = client.messages  # imports the rest of the package now, not in the event loop at the first call
            return client

        self._clients: PerLoop[Any] = PerLoop(create)

    provider = "anthropic"

    @property
    def model(self) -> str:
        return self._model

    async def generate(self, request: ModelRequest) -> ModelReply:
        # Streamed: the API refuses to answer requests with a high limit of tokens as a whole.
        return await whole_reply(self.stream(request))

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        # A schema that is asked for in the messages only needs no tool.
        final = FinalAnswer(request) if request.output_schema is not None and not request.is_json else None
        async with aclosing(self._stream(request if final is None else final.request)) as chunks:
            async for chunk in chunks:
                yield chunk if final is None else final.chunk(chunk)

    async def _stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        names, call = ToolNames.of(request), self._endpoint.call(request)
        stream = await self._open(call, names.to_provider(request))
        message = MessageAssembler(names)
        async with aclosing(call.read_all(stream, message.add)) as pieces:
            async for piece in pieces:
                yield piece
        reply = message.finish(request, self._model)
        self.calibration.observe(request, reply)
        yield ModelChunk(reply=replace(reply, usage=with_cost(reply.usage, self.price)))

    async def close(self) -> None:
        await self._clients.close()

    async def _open(self, call: EndpointCall, request: ModelRequest) -> Any:
        """Starts the stream. If the API refuses the thinking of earlier replies, it is left out.

        Newer models accept their thinking only if nothing before it has changed, but hooks, shared memory and
        compaction change what an agent has said before.
        """
        try:
            return await call.step(self._clients.current.messages.create(**self._arguments(request, thinking=True)))
        except InvalidArgument as error:
            if "thinking" not in error.message or not has_thinking(request):
                raise
            _log.info("%s refuses the thinking of earlier replies; it is left out: %s", self._model, error)
            return await call.step(self._clients.current.messages.create(**self._arguments(request, thinking=False)))

    def _arguments(self, request: ModelRequest, *, thinking: bool) -> dict[str, Any]:
        arguments = request_to_wire(request, thinking=thinking)
        if self._thinking is not None:
            arguments["thinking"] = self._thinking
        if request.temperature is not None:
            # Not an argument of the package any more: newer models take no temperature. The API's highest is 1.
            arguments["extra_body"] = {"temperature": min(request.temperature, 1.0)}
        return {
            "model": self._model,
            "max_tokens": request.max_tokens or MAX_TOKENS,
            "stream": True,
            "timeout": request.timeout,
            **arguments,
        }
