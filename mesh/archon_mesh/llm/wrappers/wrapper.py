"""The base of model clients around a model client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

from archon.errors import Unavailable
from archon.failure_kinds import PROVIDER
from archon_mesh.llm.base import ModelChunk, ModelClient, ModelReply, ModelRequest
from archon_mesh.llm.calibration import Calibration, calibration_of
from archon_mesh.llm.chunks import whole_reply
from archon_mesh.llm.media import MediaProfile, media_of
from archon_mesh.llm.prices import Price, price_of

Sleep = Callable[[float], Awaitable[None]]


class ModelWrapper:
    """A client around `client`, which it closes. Subclasses override `stream`; `generate` is made of it."""

    def __init__(self, client: ModelClient) -> None:
        self._client = client

    @property
    def model(self) -> str:
        return self._client.model

    @property
    def provider(self) -> str:
        return str(getattr(self._client, "provider", ""))

    @property
    def price(self) -> Price | None:
        return price_of(self._client)

    @property
    def media(self) -> MediaProfile | None:
        return media_of(self._client)

    @property
    def calibration(self) -> Calibration | None:
        return calibration_of(self._client)

    async def generate(self, request: ModelRequest) -> ModelReply:
        return await whole_reply(self.stream(request))

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        return stream_of(self._client, request)

    async def close(self) -> None:
        await self._client.close()


async def stream_of(client: ModelClient, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
    """Yields the chunks of a client's stream, and closes it also if it is left early.

    Raises Unavailable if the stream ends without the whole reply.
    """
    chunks = client.stream(request)
    is_complete = False
    try:
        async for chunk in chunks:
            is_complete |= chunk.reply is not None
            yield chunk
    finally:
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()
    if not is_complete:
        raise Unavailable("the model's stream ended before the reply was complete", kind=PROVIDER)


async def pause(seconds: float, request: ModelRequest, sleep: Sleep = asyncio.sleep) -> AsyncGenerator[ModelChunk]:
    """Waits, and yields empty chunks meanwhile: they show that the call is not silent, which would end it."""
    step = request.idle_timeout / 3
    while seconds > 0:
        await sleep(min(step, seconds))
        seconds -= step
        yield ModelChunk()
