"""A chain of models: the next one answers if one fails."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from typing_extensions import override

from archon.errors import (
    ArchonError,
    BudgetExhausted,
    DeadlineExceeded,
    InvalidArgument,
    ResourceExhausted,
    Unavailable,
    UnknownFailure,
)
from archon.failure_kinds import CONTEXT_OVERFLOW, PROVIDER
from archon_mesh.llm import deadline
from archon_mesh.llm.base import ModelChunk, ModelClient, ModelRequest
from archon_mesh.llm.chunks import is_visible
from archon_mesh.llm.media import EVERYTHING, MediaProfile
from archon_mesh.llm.prices import Price, highest, price_of
from archon_mesh.llm.wrappers.wrapper import ModelWrapper

_log = logging.getLogger(__name__)


def falls_back(error: ArchonError) -> bool:
    """Whether another model may answer: this one is unavailable or silent, out of quota, sent nonsense, or its context
    window is too small. A request that is invalid, not permitted or over budget is so for all models."""
    if isinstance(error, BudgetExhausted):
        return False
    if isinstance(error, (Unavailable, ResourceExhausted, UnknownFailure)):
        return True
    if isinstance(error, DeadlineExceeded):
        return error.kind == PROVIDER
    return error.kind == CONTEXT_OVERFLOW


class FallbackModel(ModelWrapper):
    """Asks the first of `clients`; if it fails with an error for which `falls_back`, the next, and so on.

    Once a part of a reply was streamed, its error is raised: front ends have shown the part, and a second reply would
    follow it as if it were one. An agent then makes the call again, as a message of its own. All but the last client
    may be silent for half of the time only. Name and calibration come from the first client; the price is an upper
    bound, so that a budget covers whichever client answers.
    """

    def __init__(self, clients: Sequence[ModelClient]) -> None:
        """Raises InvalidArgument if there is no client."""
        if not clients:
            raise InvalidArgument("a fallback chain needs at least one model")
        super().__init__(clients[0])
        self._clients = tuple(clients)

    @property
    @override
    def price(self) -> Price | None:
        return highest([price_of(client) for client in self._clients])

    @property
    @override
    def media(self) -> MediaProfile:
        return EVERYTHING  # each client has its own limits

    @override
    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        end = time.monotonic() + request.timeout
        for number, client in enumerate(self._clients, start=1):
            is_last, has_begun = number == len(self._clients), False
            share = 1.0 if is_last else 0.5
            current = replace(
                request,
                timeout=max(0.001, end - time.monotonic()),
                idle_timeout=request.idle_timeout * share,
                first_token_timeout=request.silence_at_first * share,
            )
            try:
                async with aclosing(deadline.stream(client, current)) as chunks:
                    reply = None
                    async for chunk in chunks:
                        has_begun |= is_visible(chunk)
                        reply = chunk.reply or reply
                        yield chunk
                if reply is None:
                    raise Unavailable("the model's stream ended before the reply was complete", kind=PROVIDER)
                return
            except ArchonError as error:
                if is_last or has_begun or not falls_back(error):
                    raise
                _log.warning("%s: %s; %s answers instead", client.model, error, self._clients[number].model)
            yield ModelChunk()  # shows that the call is not silent

    @override
    async def close(self) -> None:
        for client in self._clients:
            await client.close()
