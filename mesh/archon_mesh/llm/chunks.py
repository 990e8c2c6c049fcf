"""Makes a stream of a whole reply, and a whole reply of a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final

from archon.errors import Unavailable
from archon.failure_kinds import PROVIDER
from archon_mesh.llm.base import ModelChunk, ModelReply, ToolCallDelta

_WORDS_PER_CHUNK: Final = 4
_MAX_CHUNKS: Final = 2_000


async def stream_reply(reply: ModelReply) -> AsyncIterator[ModelChunk]:
    """Yields the text and the tool calls of a reply in chunks, and then the whole reply."""
    for text in _chunks(reply.text):
        yield ModelChunk(text_delta=text)
        # Lets other tasks run, and a cancellation through.
        await asyncio.sleep(0)
    for index, call in enumerate(reply.tool_calls):
        yield ModelChunk(tool_call_delta=ToolCallDelta(index, call.id, call.name))
        for text in _chunks(call.arguments_json):
            yield ModelChunk(tool_call_delta=ToolCallDelta(index, arguments_delta=text))
            await asyncio.sleep(0)
    yield ModelChunk(reply=reply)


async def noted(chunks: AsyncGenerator[ModelChunk], written: list[str]) -> AsyncGenerator[ModelChunk]:
    """Passes a stream on, and adds the model's output to `written`: text, thinking, names and arguments of calls."""
    async with aclosing(chunks):
        async for chunk in chunks:
            if chunk.text_delta or chunk.thinking_delta:
                written.append(chunk.text_delta + chunk.thinking_delta)
            if (call := chunk.tool_call_delta) is not None:
                written.append(call.name + call.arguments_delta)
            yield chunk


def is_visible(chunk: ModelChunk) -> bool:
    """Whether a front end shows something of a chunk, so that another call cannot take its place any more."""
    return bool(chunk.text_delta or chunk.thinking_delta or chunk.tool_call_delta)


async def whole_reply(chunks: AsyncIterator[ModelChunk]) -> ModelReply:
    """Reads a stream to its end, or closes it. Raises Unavailable if it ends without the whole reply."""
    reply: ModelReply | None = None
    try:
        async for chunk in chunks:
            reply = chunk.reply or reply
    finally:
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()
    if reply is None:
        raise Unavailable("the model's stream ended before the reply was complete", kind=PROVIDER)
    return reply


def _chunks(text: str) -> list[str]:
    """Splits a text into chunks of a few words; of more words, if there would be more than _MAX_CHUNKS."""
    words = text.split(" ")
    size = max(_WORDS_PER_CHUNK, -(-len(words) // _MAX_CHUNKS))
    groups = [" ".join(words[start : start + size]) for start in range(0, len(words), size)]
    return [group + " " for group in groups[:-1]] + [group for group in groups[-1:] if group]
