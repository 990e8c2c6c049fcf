"""Ends a model call that takes too long or falls silent, also if the model's client ignores the limits of the request.

The client runs in a task of its own, so that a client which swallows its cancellation holds up no caller. Calls always
stream: only a stream shows that a model is still at work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Final

from archon.errors import DeadlineExceeded, ResourceExhausted, Unavailable
from archon.failure_kinds import PROVIDER
from archon_mesh.llm.base import ModelChunk, ModelClient, ModelReply, ModelRequest
from archon_mesh.llm.chunks import is_visible, whole_reply
from archon_mesh.llm.media import NOTHING, media_of
from archon_mesh.llm.media.fit import fitted

GRACE: Final = 1.0
"""Seconds that a cancelled client has to close its connection; then the caller continues without it."""

MAX_ABANDONED: Final = 100
"""Clients of ended calls that still run. While there are so many, further calls are refused."""

_log = logging.getLogger(__name__)
_ending: set[asyncio.Task[None]] = set()
"""Cancelled clients that have not ended yet; the reference keeps their tasks alive."""


async def generate(model: ModelClient, request: ModelRequest) -> ModelReply:
    """Returns the whole reply. Raises as `stream` does, and Unavailable if the stream ends without a reply."""
    return await whole_reply(stream(model, request))


async def stream(model: ModelClient, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
    """Yields the reply in chunks. The time between chunks belongs to the consumer and is not counted.

    Raises the model's errors, DeadlineExceeded after the `timeout`, the `first_token_timeout` or the `idle_timeout` of
    the request, and ResourceExhausted if too many clients of ended calls still run. Files are nothing that a client
    without `media` knows: files of results are replaced by their labels, files of the user raise InvalidArgument.
    """
    if media_of(model) is None:
        request = fitted(request, NOTHING, model.model)
    loop = asyncio.get_running_loop()
    _ending.difference_update([task for task in _ending if task.get_loop().is_closed()])
    if len(_ending) >= MAX_ABANDONED:
        raise ResourceExhausted(f"{len(_ending)} cancelled model calls have not ended", retry_delay=GRACE)
    chunks: asyncio.Queue[ModelChunk | None] = asyncio.Queue(maxsize=1)
    client = loop.create_task(_consume(model, request, chunks), name=f"model {model.model}")
    client.add_done_callback(lambda _: chunks.put_nowait(None) if chunks.empty() else None)
    client.add_done_callback(_ended)
    remaining, has_begun = request.timeout, False
    try:
        while True:
            started = loop.time()
            # A chunk that is there was in time, however long its consumer took for the one before.
            if not chunks.empty():
                chunk = chunks.get_nowait()
            elif client.done():
                break
            else:
                chunk = await _wait(chunks, model, request, remaining, has_begun)
            if chunk is None:
                break
            remaining -= loop.time() - started
            has_begun = has_begun or is_visible(chunk)
            yield chunk
        if client.cancelled():
            raise Unavailable(f"the client of the model {model.model} cancelled its own call", kind=PROVIDER)
        client.result()
    finally:
        if not client.done():
            await _end(client, model)


async def _consume(model: ModelClient, request: ModelRequest, chunks: asyncio.Queue[ModelChunk | None]) -> None:
    """Puts the chunks of the model's stream into the queue."""
    if not hasattr(model, "stream"):
        # A double in a test of an agent often has `generate` only.
        await chunks.put(ModelChunk(reply=await model.generate(request)))
        return
    stream = model.stream(request)
    try:
        async for chunk in stream:
            await chunks.put(chunk)
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


async def _wait(
    chunks: asyncio.Queue[ModelChunk | None],
    model: ModelClient,
    request: ModelRequest,
    remaining: float,
    has_begun: bool,
) -> ModelChunk | None:
    """Returns the next chunk, or None if the client has ended."""
    silence = request.idle_timeout if has_begun else request.silence_at_first
    try:
        async with asyncio.timeout(min(remaining, silence)):
            return await chunks.get()
    except TimeoutError:
        if remaining <= silence:
            raise DeadlineExceeded(
                f"no reply of the model {model.model} within {request.timeout:g} s (timeout)"
            ) from None
        words = "sent nothing for" if has_begun else "sent no first token for"
        setting = "idle_timeout" if has_begun else "first_token_timeout"
        raise DeadlineExceeded(f"the model {model.model} {words} {silence:g} s ({setting})", kind=PROVIDER) from None


async def _end(client: asyncio.Task[None], model: ModelClient) -> None:
    """Cancels a client, and waits until it has ended, for GRACE seconds at most."""
    _ending.add(client)
    client.cancel()
    await asyncio.wait({client}, timeout=GRACE)
    if not client.done():
        _log.warning("%s: the client of the model ignores its cancellation; the call ends without it", model.model)


def _ended(client: asyncio.Task[None]) -> None:
    error = None if client.cancelled() else client.exception()  # marks it as retrieved, also if a timeout came first
    if client in _ending:
        _ending.discard(client)
        # The caller has its error already; the error of a cancelled client is of interest to its author only.
        if error is not None:
            _log.debug("a cancelled model call ended with %s", type(error).__name__)
