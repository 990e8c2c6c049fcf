"""Middlewares that limit what an agent may spend and which tools it may call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from typing_extensions import override

from archon.errors import BudgetExhausted, InvalidArgument, PermissionDenied
from archon.failure_kinds import TOOL_PERMISSION
from archon_mesh.agent.hooks.context import HookContext, ModelParams
from archon_mesh.agent.hooks.middleware import Middleware, ModelCall, maybe_await
from archon_mesh.agent.hooks.points import Outcome, stop
from archon_mesh.agent.state.agent_state import get_context
from archon_mesh.llm.base import ModelReply, estimate_input
from archon_mesh.tools.failures import failed

OUTPUT_TOKENS: Final = 1024
"""Tokens reserved for a reply if the agent sets no `max_tokens`."""

_SPENT: Final = "archon.budget"


class BudgetMiddleware(Middleware):
    """Limits the tokens (input and output) and the model calls of a whole run.

    Sub-agents that have a middleware of this class share the budget. A call that might exceed it raises BudgetExhausted
    before it is made.
    """

    def __init__(self, max_tokens: int | None = None, max_model_calls: int | None = None) -> None:
        """Raises InvalidArgument if a limit is below 1, or if there is none."""
        limits = [limit for limit in (max_tokens, max_model_calls) if limit is not None]
        if not limits or min(limits) < 1:
            raise InvalidArgument("invalid budget: set max_tokens or max_model_calls, each at least 1")
        self._max_tokens = max_tokens
        self._max_model_calls = max_model_calls

    @override
    async def wrap_model_call(self, params: ModelParams, call: ModelCall) -> ModelReply:
        # Reserves the most that the call may use, and releases the unused part afterwards.
        storage = get_context().global_storage
        reserved = estimate_input(params.request()) + (params.max_tokens or OUTPUT_TOKENS)

        def reserve(spent: tuple[int, int]) -> tuple[int, int]:
            tokens, calls = spent[0] + reserved, spent[1] + 1
            if self._max_tokens is not None and tokens > self._max_tokens:
                left = self._max_tokens - spent[0]
                raise BudgetExhausted(
                    f"insufficient budget: {left:,} tokens left of {self._max_tokens:,}, {reserved:,} needed"
                )
            if self._max_model_calls is not None and calls > self._max_model_calls:
                raise BudgetExhausted(f"insufficient budget: all {self._max_model_calls} model calls are used")
            return tokens, calls

        storage.compute(_SPENT, reserve, (0, 0))
        used = 0
        try:
            reply = await call(params)
            used = reply.usage.input_tokens + reply.usage.output_tokens
            return reply
        finally:
            storage.compute(_SPENT, lambda spent: (spent[0] - reserved + used, spent[1]), (0, 0))


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
