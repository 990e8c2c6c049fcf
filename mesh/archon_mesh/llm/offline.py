"""The offline model: no network, no weights, no key; plain text analysis of the messages it is given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from archon_mesh.llm.base import (
    ModelChunk,
    ModelReply,
    ModelRequest,
    estimate_tokens,
    estimate_usage,
)
from archon_mesh.llm.offline_tasks import write_reply

_WORDS_PER_CHUNK = 4
_MOST_CHUNKS = 2_000
_LARGE = 100_000  # characters, from which on the analysis leaves the event loop


class OfflineModel:
    """Answers by text analysis alone: the same messages always give the same reply, which says what it is.

    The first system prompt sets the task: to extract requirements, to design components, to write an
    implementation; anything else gets a summary of the material. It calls no tools. Usage is estimated at
    four characters a token, and `max_tokens` is kept by that measure; `temperature` and `timeout` have no
    effect.
    """

    @property
    def model(self) -> str:
        return "offline"

    async def generate(self, request: ModelRequest) -> ModelReply:
        if sum(len(message.content) for message in request.messages) > _LARGE:
            text = await asyncio.to_thread(write_reply, request.messages)
        else:
            text = write_reply(request.messages)
        finish_reason = "stop"
        if request.max_tokens is not None and estimate_tokens(text) > request.max_tokens:
            text, finish_reason = text[: 4 * request.max_tokens], "length"
        return ModelReply(text, (), estimate_usage(request, text), self.model, finish_reason)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        reply = await self.generate(request)
        for text in _chunks(reply.text):
            yield ModelChunk(text_delta=text)
            # Lets others run, and a cancellation through.
            await asyncio.sleep(0)
        yield ModelChunk(reply=reply)

    async def close(self) -> None:
        """Nothing to close."""


def _chunks(text: str) -> list[str]:
    """A few words each, which together are the text; more words each where there would be too many."""
    words = text.split(" ")
    size = max(_WORDS_PER_CHUNK, -(-len(words) // _MOST_CHUNKS))
    groups = [" ".join(words[start : start + size]) for start in range(0, len(words), size)]
    return [group + " " for group in groups[:-1]] + [group for group in groups[-1:] if group]
