"""What an agent may spend and do, as middlewares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from archon.errors import BudgetExhausted, InvalidArgument, PermissionDenied
from archon_mesh.agent.hooks.middleware import Middleware, ModelCall, settled
from archon_mesh.agent.hooks.points import HookContext, Outcome, stop
from archon_mesh.agent.loop.model_request import ModelParams
from archon_mesh.agent.state.agent_state import get_context
from archon_mesh.llm.base import ModelReply, estimate_input
from archon_mesh.tools.result import ToolResult

OUTPUT_TOKENS: Final = 1024
"""Reserved for a reply whose length isn't bounded."""

_SPENT: Final = "archon.budget"


class BudgetMiddleware(Middleware):
    """At most so many tokens, in and out, and so many calls of a model in a whole run: sub-agents that have a
    middleware of this kind spend of the same. A call that could take it above raises BudgetExhausted before it is made.
    """

    def __init__(self, max_tokens: int | None = None, max_model_calls: int | None = None) -> None:
        """Raises InvalidArgument where a bound is below 1, or there is none."""
        bounds = [bound for bound in (max_tokens, max_model_calls) if bound is not None]
        if not bounds or min(bounds) < 1:
            raise InvalidArgument("a budget has max_tokens or max_model_calls, each at least 1")
        self._tokens = max_tokens
        self._calls = max_model_calls

    async def wrap_model_call(self, params: ModelParams, call: ModelCall) -> ModelReply:
        """Sets aside what the call may take, and gives back what it didn't."""
        storage = get_context().global_storage
        wanted = estimate_input(params.request()) + (params.max_tokens or OUTPUT_TOKENS)

        def reserve(spent: tuple[int, int]) -> tuple[int, int]:
            tokens, calls = spent[0] + wanted, spent[1] + 1
            if self._tokens is not None and tokens > self._tokens:
                raise BudgetExhausted(
                    f"{spent[0]:,} of {self._tokens:,} tokens are spent, the call may take {wanted:,}"
                )
            if self._calls is not None and calls > self._calls:
                raise BudgetExhausted(f"all {self._calls} calls of a model are made")
            return tokens, calls

        storage.compute(_SPENT, reserve, (0, 0))
        used = 0
        try:
            reply = await call(params)
            used = reply.usage.input_tokens + reply.usage.output_tokens
            return reply
        finally:
            storage.compute(_SPENT, lambda spent: (spent[0] - wanted + used, spent[1]), (0, 0))


class PermissionMiddleware(Middleware):
    """`allow` is asked before each tool call, with the HookContext; sync or async. False, or a reason: the tool isn't
    called, and the model is told so."""

    def __init__(self, allow: Callable[[HookContext], Any]) -> None:
        self._allow = allow

    async def before_tool(self, hook: HookContext) -> Outcome | None:
        """Lets it through, or gives the refusal as the call's result."""
        answer = await settled(self._allow(hook))
        if answer is True:
            return None
        name = hook.tool_call.name if hook.tool_call is not None else ""
        why = answer if isinstance(answer, str) else f"{name} may not be called"
        return stop(ToolResult.error(why, error=PermissionDenied(why)))
