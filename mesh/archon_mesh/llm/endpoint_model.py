"""The common parts of clients of models behind an API: price, calibration, files, connections of each event loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Generic, TypeVar

from archon_mesh.llm.base import ModelChunk, ModelReply, ModelRequest
from archon_mesh.llm.calibration import Calibration
from archon_mesh.llm.chunks import whole_reply
from archon_mesh.llm.media import MediaProfile, SentFiles
from archon_mesh.llm.per_loop import PerLoop
from archon_mesh.llm.prices import find_price, with_cost
from archon_mesh.llm.structured import FinalAnswer

T = TypeVar("T")


class EndpointModel(ABC, Generic[T]):
    """A model client, whose subclass sends the requests and reads the replies."""

    def __init__(self, provider: str, model: str, media: MediaProfile, connect: Callable[[], T]) -> None:
        """`media` has the files that the model takes; `connect` makes the connections of one event loop."""
        self.provider = provider
        self._model = model
        self.price = find_price(f"{provider}/{model}")
        self.calibration = Calibration()
        self.media = media
        self._files = SentFiles(media, model)
        self._clients = PerLoop(connect)

    @property
    def model(self) -> str:
        return self._model

    async def generate(self, request: ModelRequest) -> ModelReply:
        # Streamed: some APIs refuse to answer requests with a high limit of tokens as a whole.
        return await whole_reply(self.stream(request))

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        return FinalAnswer.streamed(self._final_answer(request), request, self._with_files)

    async def close(self) -> None:
        await self._clients.close()

    @abstractmethod
    async def _start(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        """Sends a request. Returns the chunks of the reply; the last one has the whole reply."""

    def _final_answer(self, request: ModelRequest) -> FinalAnswer | None:
        """Returns the tool that the model gives its answer by, if it needs one."""
        return FinalAnswer.needed(request)

    def _accounted(self, reply: ModelReply, request: ModelRequest) -> ModelReply:
        self.calibration.observe(request, reply)
        return replace(reply, usage=with_cost(reply.usage, self.price))

    def _with_files(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        return self._files.streamed(request, self._stream)

    async def _stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        async with aclosing(await self._start(request)) as chunks:
            async for chunk in chunks:
                yield chunk if chunk.reply is None else ModelChunk(reply=self._accounted(chunk.reply, request))
