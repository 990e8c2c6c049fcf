"""Makes a call again after an error of its provider that may pass."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace

from typing_extensions import override

from archon.clock import monotonic
from archon.errors import ArchonError, InvalidArgument
from archon_mesh.llm.base import ModelChunk, ModelClient, ModelRequest
from archon_mesh.llm.chunks import is_visible
from archon_mesh.llm.retry import RETRIES, WITHIN, is_transient, pause_before
from archon_mesh.llm.wrappers.wrapper import ModelWrapper, Sleep, pause, stream_of

_log = logging.getLogger(__name__)


class RetryModel(ModelWrapper):
    """Makes a call up to `retries` times again, with exponential backoff and jitter, and not before the time that the
    provider asked for (Retry-After).

    A call is not made again once a part of its reply was streamed, a minute after its beginning, or if the pause would
    exceed its timeout. An agent does the same by itself: the wrapper is for clients inside other wrappers, and for use
    without an agent, whose own `retries` should then be 0.
    """

    def __init__(
        self,
        client: ModelClient,
        retries: int = RETRIES,
        *,
        sleep: Sleep = asyncio.sleep,
        clock: Callable[[], float] = monotonic,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """Raises InvalidArgument if `retries` is negative."""
        if retries < 0:
            raise InvalidArgument(f"retries must be at least 0, not {retries}")
        super().__init__(client)
        self._retries = retries
        self._sleep = sleep
        self._clock = clock
        self._uniform = uniform

    @override
    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        began = self._clock()
        for retry in range(1, self._retries + 2):
            elapsed = self._clock() - began
            has_begun = False
            try:
                current = replace(request, timeout=request.timeout - elapsed)
                async with aclosing(stream_of(self._client, current)) as chunks:
                    async for chunk in chunks:
                        has_begun |= is_visible(chunk)
                        yield chunk
                return
            except ArchonError as error:
                seconds = pause_before(retry, error, self._uniform)
                end = self._clock() - began + seconds
                if retry > self._retries or has_begun or not is_transient(error):
                    raise
                if end >= min(WITHIN, request.timeout):
                    raise
                _log.warning("%s: %s; retry %d of %d in %.1f s", self.model, error, retry, self._retries, seconds)
            async with aclosing(pause(seconds, request, self._sleep)) as chunks:
                async for chunk in chunks:
                    yield chunk
