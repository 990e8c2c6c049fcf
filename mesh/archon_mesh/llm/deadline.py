"""Ends a model call at its timeout, also if the client of the model ignores it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

from archon.errors import DeadlineExceeded
from archon_mesh.llm.base import ModelChunk, ModelClient, ModelReply, ModelRequest

T = TypeVar("T")


async def generate(model: ModelClient, request: ModelRequest) -> ModelReply:
    """Returns the whole reply. Raises DeadlineExceeded after the timeout of the request, and what the model raises."""
    return await _until(_deadline(request), model.generate(request), model, request)


async def stream(model: ModelClient, request: ModelRequest) -> AsyncIterator[ModelChunk]:
    """Yields the reply in chunks. Raises as `generate` does; the deadline is checked at each chunk."""
    deadline = _deadline(request)
    chunks = aiter(model.stream(request))
    try:
        # A timeout must not span a yield: the time between chunks belongs to the consumer.
        while (chunk := await _until(deadline, anext(chunks, None), model, request)) is not None:
            yield chunk
    finally:
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()


def _deadline(request: ModelRequest) -> float:
    return asyncio.get_running_loop().time() + request.timeout


async def _until(deadline: float, step: Awaitable[T], model: ModelClient, request: ModelRequest) -> T:
    try:
        async with asyncio.timeout_at(deadline) as limit:
            return await step
    except TimeoutError as error:
        if not limit.expired() or isinstance(error, DeadlineExceeded):
            raise
        raise DeadlineExceeded(f"no reply of the model {model.model} within {request.timeout:g} s") from None
