"""Middlewares that limit an agent's spending and the tools that it may call."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any, Final

from typing_extensions import override

from archon.errors import BudgetExhausted, InvalidArgument, PermissionDenied
from archon.failure_kinds import TOOL_PERMISSION
from archon_mesh.agent.hooks.context import HookContext, ModelParams
from archon_mesh.agent.hooks.middleware import Middleware, ModelCall, QueryCall, maybe_await
from archon_mesh.agent.hooks.points import Outcome, stop
from archon_mesh.agent.state.agent_state import AgentState, get_context
from archon_mesh.llm.base import ModelReply
from archon_mesh.llm.prices import estimate_call
from archon_mesh.tools.failures import failed

SPENT: Final = "archon.budget"
"""The key of the spending of a run's budget, in the storage that its agents share: tokens, model calls, and cost in
millionths of a US dollar."""


class BudgetMiddleware(Middleware):
    """Limits the tokens (input and output), the model calls and the cost of a whole run, and the time of its agent.

    Sub-agents that have a middleware of this class share the budget, but for the time: each has its own. A call that
    might exceed the budget raises BudgetExhausted before it is made; the end of the time stops the work in progress. In
    the mesh the time counts per attempt, which the wait for a person ends.
    """

    def __init__(
        self,
        max_tokens: int | None = None,
        max_model_calls: int | None = None,
        max_cost: float | None = None,
        max_seconds: float | None = None,
    ) -> None:
        """`max_cost` is in US dollars; a model without a price costs nothing.

        Raises InvalidArgument if a limit is below 1, the cost below a millionth, the seconds are not above 0, or if
        there is no limit.
        """
        if max_seconds is not None and not 0 < max_seconds < math.inf:
            raise InvalidArgument(f"invalid budget: max_seconds is {max_seconds}, and must be above 0")
        self._max_seconds = max_seconds
        cost = None if max_cost is None else round(max_cost * 1_000_000)
        limits = [limit for limit in (max_tokens, max_model_calls, cost) if limit is not None]
        if (not limits and max_seconds is None) or min(limits, default=1) < 1:
            raise InvalidArgument(
                "invalid budget: set max_tokens, max_model_calls or max_cost, each at least 1, or $0.000001, "
                "or max_seconds"
            )
        self._max_tokens = max_tokens
        self._max_model_calls = max_model_calls
        self._max_cost = cost

    @override
    async def wrap_query(self, state: AgentState, message: str, call: QueryCall) -> str:
        try:
            async with asyncio.timeout(self._max_seconds) as limit:
                return await call()
        except TimeoutError:
            if not limit.expired():
                raise
            raise BudgetExhausted(
                f"insufficient budget: the {self._max_seconds:g} s of {state.agent.name} are used"
            ) from None

    @override
    async def wrap_model_call(self, params: ModelParams, call: ModelCall) -> ModelReply:
        # Reserves the most that the call may use, and releases the unused part afterwards.
        state = get_context()
        storage = state.global_storage
        reserved, reserved_cost = estimate_call(state.agent.model, params.request())

        def reserve(spent: tuple[int, int, int]) -> tuple[int, int, int]:
            tokens, calls, cost = spent[0] + reserved, spent[1] + 1, spent[2] + reserved_cost
            if self._max_tokens is not None and tokens > self._max_tokens:
                left = self._max_tokens - spent[0]
                raise BudgetExhausted(
                    f"insufficient budget: {left:,} tokens left of {self._max_tokens:,}, {reserved:,} needed"
                )
            if self._max_model_calls is not None and calls > self._max_model_calls:
                raise BudgetExhausted(f"insufficient budget: all {self._max_model_calls} model calls are used")
            if self._max_cost is not None and cost > self._max_cost:
                raise BudgetExhausted(
                    f"insufficient budget: ${(self._max_cost - spent[2]) / 1e6:.6f} left of "
                    f"${self._max_cost / 1e6:.6f}, ${reserved_cost / 1e6:.6f} needed"
                )
            return tokens, calls, cost

        storage.compute(SPENT, reserve, (0, 0, 0))
        before = len(params.tries)
        try:
            return await call(params)
        finally:
            usage = params.spent(before)
            used, used_cost = usage.input_tokens + usage.output_tokens, usage.cost_micro_usd

            def settle(spent: tuple[int, int, int]) -> tuple[int, int, int]:
                return spent[0] - reserved + used, spent[1], spent[2] - reserved_cost + used_cost

            storage.compute(SPENT, settle, (0, 0, 0))


class PermissionMiddleware(Middleware):
    """Calls `allow` with the HookContext before each tool call; sync or async.

    If it returns False or a reason, the tool is not called, and the model gets the refusal as the result.
    """

    def __init__(self, allow: Callable[[HookContext], Any]) -> None:
        self._allow = allow

    @override
    async def before_tool(self, hook: HookContext) -> Outcome | None:
        allowed = await maybe_await(self._allow(hook))
        if allowed is True:
            return None
        name = hook.tool_call.name if hook.tool_call is not None else ""
        reason = allowed if isinstance(allowed, str) else f"permission denied for tool {name}"
        return stop(failed(PermissionDenied(reason, kind=TOOL_PERMISSION)).result)
