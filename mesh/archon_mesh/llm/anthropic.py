"""Client for the Messages API of Anthropic."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from archon.errors import InvalidArgument
from archon_mesh.llm.anthropic_reply import NO_REPLY, MessageReply
from archon_mesh.llm.anthropic_wire import has_thinking, request_to_wire
from archon_mesh.llm.base import ModelChunk, ModelRequest
from archon_mesh.llm.endpoint import Endpoint, EndpointCall
from archon_mesh.llm.endpoint_http import EndpointHttp
from archon_mesh.llm.endpoint_model import EndpointModel
from archon_mesh.llm.media import MediaProfile
from archon_mesh.llm.reply_stream import ReplyStream
from archon_mesh.llm.servers import find_media
from archon_mesh.llm.tool_names import ToolNames

if TYPE_CHECKING:
    import httpx2

ADDRESS: Final = "https://api.anthropic.com"
VERSION: Final = "2023-06-01"
"""The version of the API that requests name."""

MAX_TOKENS: Final = 32_000
"""Tokens of a reply, thinking included, if the request sets no limit: the API requires one."""

MEDIA: Final = MediaProfile(media=("image", "file"), media_urls=("image", "file"))
"""The files that models behind the API take."""

_log = logging.getLogger(__name__)


class AnthropicModel(EndpointModel[EndpointHttp]):
    """A model behind the Messages API.

    `base_url` defaults to ANTHROPIC_BASE_URL, then to Anthropic; `api_key` defaults to ANTHROPIC_API_KEY, which is
    optional for other servers. `thinking` is sent as it is, None leaves it to the model's default. Thinking is
    streamed, and sent back with its signature, as the API requires between a tool call and its result. `server` are
    keys of MediaProfile that replace the ones of MEDIA.

    Raises Unauthenticated if the endpoint is Anthropic and there is no key, or if the key has characters that an HTTP
    header cannot carry, and InvalidArgument for an invalid base URL or an unknown key.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        thinking: Mapping[str, Any] | None = None,
        server: Mapping[str, Any] | None = None,
    ) -> None:
        self._thinking = dict(thinking) if thinking is not None else None
        self._endpoint = Endpoint("ANTHROPIC", "Anthropic", base_url=base_url, api_key=api_key)
        address, key = self._endpoint.base_url or ADDRESS, self._endpoint.key
        headers = {"anthropic-version": VERSION, **({"authorization": f"Bearer {key}"} if key else {})}
        media = find_media(server, MEDIA)
        super().__init__("anthropic", model, media, lambda: EndpointHttp(address, "/v1/messages", headers, key))

    @override
    async def _start(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        names, call = ToolNames.of(request), self._endpoint.call(request)
        response = await self._open(call, self._files.fit(names.to_provider(request)))
        reply = MessageReply(names, self._endpoint.key)
        return ReplyStream(call, response, NO_REPLY).read(reply, reply.add, request, self._model)

    async def _open(self, call: EndpointCall, request: ModelRequest) -> httpx2.Response:
        """Starts the stream. If the API refuses the thinking of earlier replies, it is left out.

        Newer models accept their thinking only if nothing before it has changed, but hooks, shared memory and
        compaction change an agent's earlier messages.
        """
        try:
            return await self._post(call, request, thinking=True)
        except InvalidArgument as error:
            if "thinking" not in error.message or not has_thinking(request):
                raise
            _log.info("%s refuses the thinking of earlier replies; it is left out: %s", self._model, error)
            return await self._post(call, request, thinking=False)

    async def _post(self, call: EndpointCall, request: ModelRequest, *, thinking: bool) -> httpx2.Response:
        body = self._arguments(request, thinking=thinking)
        return await call.step(self._clients.current.post(body, request.timeout))

    def _arguments(self, request: ModelRequest, *, thinking: bool) -> dict[str, Any]:
        arguments = request_to_wire(request, thinking=thinking)
        if self._thinking is not None:
            arguments["thinking"] = self._thinking
        if request.temperature is not None:
            arguments["temperature"] = min(request.temperature, 1.0)  # the API's highest
        return {
            "model": self._model,
            "max_tokens": request.max_tokens or MAX_TOKENS,
            "stream": True,
            **arguments,
        }
