"""Limits a client's spending in its life."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from typing_extensions import override

from archon.errors import BudgetExhausted, InvalidArgument
from archon_mesh.llm.base import ModelChunk, ModelClient, ModelRequest, Usage
from archon_mesh.llm.chunks import noted
from archon_mesh.llm.prices import estimate_call, usage_of_failed
from archon_mesh.llm.wrappers.wrapper import ModelWrapper, stream_of


class BudgetModel(ModelWrapper):
    """Makes a call only if the rest of the budget covers it: its estimated input and its longest reply.

    `tokens` counts input and output, `cost` is in US dollars. Afterwards the actual usage counts, and the usage of a
    call that failed while the model replied is estimated. Calls that run at the same time share the budget. In a run of
    the mesh, use the budget of the run.
    """

    def __init__(self, client: ModelClient, *, tokens: int | None = None, cost: float | None = None) -> None:
        """Raises InvalidArgument if there is no limit, or one that is not above 0."""
        limits = [limit for limit in (tokens, cost) if limit is not None]
        if not limits or min(limits) <= 0:
            raise InvalidArgument("set tokens or cost, each above 0")
        super().__init__(client)
        self._limit_tokens = tokens
        self._limit_cost = None if cost is None else round(cost * 1_000_000)
        self._tokens = self._cost = 0

    @override
    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        tokens, cost = estimate_call(self._client, request)
        self._check(tokens, cost)
        self._tokens, self._cost = self._tokens + tokens, self._cost + cost
        written: list[str] = []
        usage: Usage | None = None
        try:
            async with aclosing(noted(stream_of(self._client, request), written)) as chunks:
                async for chunk in chunks:
                    usage = chunk.reply.usage if chunk.reply is not None else usage
                    yield chunk
        finally:
            used = usage or usage_of_failed(self._client, request, "".join(written)) or Usage(0, 0)
            self._tokens += used.input_tokens + used.output_tokens - tokens
            self._cost += used.cost_micro_usd - cost

    def _check(self, tokens: int, cost: int) -> None:
        if self._limit_tokens is not None and (left := self._limit_tokens - self._tokens) < tokens:
            raise BudgetExhausted(
                f"insufficient budget: {left:,} tokens left of {self._limit_tokens:,}, {tokens:,} needed"
            )
        if self._limit_cost is not None and (left := self._limit_cost - self._cost) < cost:
            raise BudgetExhausted(
                f"insufficient budget: ${left / 1e6:.6f} left of ${self._limit_cost / 1e6:.6f}, "
                f"${cost / 1e6:.6f} needed"
            )
