"""Keeps calls within the limits of a provider, instead of running into them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from typing_extensions import override

from archon.clock import monotonic
from archon.errors import InvalidArgument, ResourceExhausted
from archon_mesh.llm.base import ModelChunk, ModelClient, ModelRequest
from archon_mesh.llm.prices import estimate_call
from archon_mesh.llm.wrappers.wrapper import ModelWrapper, Sleep, pause, stream_of

MAX_WAIT: Final = 60.0
"""Seconds that a call waits for its turn, by default."""


class TokenBucket:
    """A token bucket that holds a minute's worth. An amount beyond its level is a debt, which the caller waits off;
    later callers wait for it, too, so that calls keep their order."""

    def __init__(self, per_minute: int, now: float) -> None:
        self._rate = per_minute / 60
        self._capacity = float(per_minute)
        self._level = self._capacity
        self._now = now

    def wait_for(self, amount: float, now: float) -> float:
        """Returns the seconds until an amount would be there."""
        self._level = min(self._capacity, self._level + (now - self._now) * self._rate)
        self._now = now
        return max(0.0, (amount - self._level) / self._rate)

    def take(self, amount: float) -> None:
        """Takes an amount; a negative one is given back."""
        self._level = min(self._capacity, self._level - amount)


class RateLimitedModel(ModelWrapper):
    """Delays calls, in their order, so that no more than so many requests and tokens are sent per minute.

    A minute's worth may be sent at once, after a time without calls.

    A call counts with its estimated tokens, and with those that the provider reports once it has ended. A call that
    would wait for more than `max_wait` seconds, or for longer than its timeout, raises ResourceExhausted at once, with
    the delay after which to try again. A call that is cancelled while it waits gives its share back.
    """

    def __init__(
        self,
        client: ModelClient,
        *,
        tokens_per_minute: int | None = None,
        requests_per_minute: int | None = None,
        max_wait: float = MAX_WAIT,
        clock: Callable[[], float] = monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """Raises InvalidArgument if a limit is below 1, or if there is none."""
        limits = [limit for limit in (tokens_per_minute, requests_per_minute) if limit is not None]
        if not limits or min(limits) < 1 or max_wait < 0:
            raise InvalidArgument(
                "set tokens_per_minute or requests_per_minute, each at least 1, and max_wait from 0 s"
            )
        super().__init__(client)
        now = clock()
        self._tokens = TokenBucket(tokens_per_minute, now) if tokens_per_minute is not None else None
        self._requests = TokenBucket(requests_per_minute, now) if requests_per_minute is not None else None
        self._max_wait = max_wait
        self._clock = clock
        self._sleep = sleep

    @override
    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        reserved, _ = estimate_call(self._client, request)
        seconds = self._reserve(reserved, request)
        used, has_waited = 0, False
        try:
            async with aclosing(pause(seconds, request, self._sleep)) as chunks:
                async for chunk in chunks:
                    yield chunk
            has_waited, used = True, reserved
            current = replace(request, timeout=request.timeout - seconds)
            async with aclosing(stream_of(self._client, current)) as chunks:
                async for chunk in chunks:
                    if chunk.reply is not None:
                        used = chunk.reply.usage.input_tokens + chunk.reply.usage.output_tokens
                    yield chunk
        finally:
            if self._tokens is not None:
                self._tokens.take(used - reserved)
            if self._requests is not None and not has_waited:
                self._requests.take(-1)

    def _reserve(self, tokens: int, request: ModelRequest) -> float:
        """Takes the share of a call, and returns the seconds to wait before it may be made."""
        now = self._clock()
        amounts = [(bucket, amount) for bucket, amount in ((self._tokens, tokens), (self._requests, 1)) if bucket]
        seconds = max(bucket.wait_for(amount, now) for bucket, amount in amounts)
        longest = min(self._max_wait, request.timeout)
        if seconds > longest:
            raise ResourceExhausted(
                f"the rate limit of {self.model} is reached: the call would wait for {seconds:.0f} s, and "
                f"{longest:.0f} s are allowed",
                retry_delay=seconds,
            )
        for bucket, amount in amounts:
            bucket.take(amount)
        return seconds
