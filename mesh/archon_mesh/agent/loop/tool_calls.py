"""The tool calls of one reply: all at once, each with its hooks, none able to harm another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from archon.errors import ArchonError, BudgetExhausted, OperationCancelled
from archon_mesh.agent.errors import ToolPolicyViolation
from archon_mesh.agent.events.emit import of_run, tell_call, tell_result
from archon_mesh.agent.hooks.middleware import Hooks
from archon_mesh.agent.hooks.points import HookContext, HookDecision, HookEvent
from archon_mesh.agent.state.agent_state import AgentState, calling
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.core.tool_messages import tool_answer, tool_failure
from archon_mesh.tools.engine import parsed
from archon_mesh.tools.result import ToolResult

MAX_RETRIES: Final = 3
"""So often a hook may have one call made again; then its result stands."""


_ENDS: Final = (OperationCancelled, BudgetExhausted)
"""What ends the run, whichever tool it befell: no model can do anything about it."""


@dataclass(slots=True)
class _Done:
    result: ToolResult
    answer: str | None = None
    """What a hook stopped the run with."""


class ToolTurn:
    """One per run."""

    def __init__(self, state: AgentState, hooks: Hooks) -> None:
        self._state = state
        self._hooks = hooks

    async def carry_out(self, calls: Sequence[ToolCall]) -> str | None:
        """Appends a message per call to the history, in their order. The run's answer where a hook has stopped it, or
        a tool succeeded that ends it. Where this ends before the calls do, they are cancelled, and the history says
        so."""
        done: list[_Done | None] = [None] * len(calls)

        async def one(number: int, call: ToolCall) -> None:
            done[number] = await self._one(call, number + 1)

        try:
            if len(calls) == 1:
                await one(0, calls[0])
            else:
                async with asyncio.TaskGroup() as group:
                    for number, call in enumerate(calls):
                        group.create_task(one(number, call), name=f"tool {call.name}")
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            self._state.history.extend(
                _as_message(call, made.result if made else ToolResult.error("cancelled before it was done"))
                for call, made in zip(calls, done, strict=True)
            )
        for call, made in zip(calls, done, strict=True):
            if made is not None and made.answer is not None:
                return made.answer
            if made is not None and made.result.ok and call.name in self._state.agent.exit_on_success:
                return made.result.text
        return None

    async def _one(self, call: ToolCall, number: int) -> _Done:
        state = self._state
        about = of_run(state)
        await tell_call(state.emitter, about, call.id, call.name, call.arguments_json)
        with calling(state, number):
            made = await (self._wrapped(call) if self._hooks.tools else self._with_hooks(call))
        result = made.result
        await tell_result(state.emitter, about, call.id, result.text, result.status, result.content)
        return made

    async def _wrapped(self, call: ToolCall) -> _Done:
        done: _Done | None = None

        async def proceed() -> ToolResult:
            nonlocal done
            done = await self._with_hooks(call)
            return done.result

        result = await self._hooks.around_tool(call, proceed)()
        return _Done(result, done.answer if done is not None else None)

    async def _with_hooks(self, call: ToolCall) -> _Done:
        hooks = self._hooks
        try:
            arguments = dict(parsed(call.arguments_json))
        except ArchonError as error:
            return await self._after(call, {}, ToolResult.error(str(error), error=error), 0)
        if HookEvent.BEFORE_TOOL in hooks:
            seen = self._seen(HookEvent.BEFORE_TOOL, call, arguments)
            outcome = await hooks.run(seen)
            if outcome.decision is HookDecision.STOP:
                return _Done(outcome.value if isinstance(outcome.value, ToolResult) else ToolResult(outcome.value))
            arguments = seen.arguments
        return await self._after(call, arguments, await self._execute(call, arguments), 0)

    async def _execute(self, call: ToolCall, arguments: dict[str, object]) -> ToolResult:
        state = self._state
        try:
            state.agent.policy.use(call.name, state.tool_calls)
        except ToolPolicyViolation as error:
            return ToolResult.error(str(error), error=error)
        result = await state.agent.engine.execute_tool_call(call.name, arguments, agent_state=state)
        cause = result.metadata.get("error")
        if isinstance(cause, _ENDS):
            raise cause
        return result

    async def _after(self, call: ToolCall, arguments: dict[str, object], result: ToolResult, retries: int) -> _Done:
        """Hooks on an error, where it is one; then those after every call."""
        for event in (HookEvent.TOOL_ERROR, HookEvent.AFTER_TOOL):
            if event not in self._hooks or (event is HookEvent.TOOL_ERROR and result.ok):
                continue
            seen = self._seen(event, call, arguments, result)
            outcome = await self._hooks.run(seen)
            if outcome.decision is HookDecision.RETRY and retries < MAX_RETRIES:
                return await self._after(call, arguments, await self._execute(call, arguments), retries + 1)
            if outcome.decision is HookDecision.STOP:
                return _Done(result, str(outcome.value))
            result = seen.tool_result or result
        return _Done(result)

    def _seen(
        self, event: HookEvent, call: ToolCall, arguments: dict[str, object], result: ToolResult | None = None
    ) -> HookContext:
        error = result.metadata.get("error") if result is not None else None
        return HookContext(
            event,
            self._state.agent,
            self._state,
            tool_call=call,
            arguments=arguments,
            tool_result=result,
            error=error if isinstance(error, BaseException) else None,
        )


def _as_message(call: ToolCall, result: ToolResult) -> ChatMessage:
    """As the model reads it."""
    if result.ok:
        return tool_answer(call, result.text)
    error = result.metadata.get("error")
    if isinstance(error, ArchonError):
        return tool_failure(call, error.code, error.reason, result.error_message)
    code = "DEADLINE_EXCEEDED" if result.status == "timeout" else "UNKNOWN"
    return tool_failure(call, code, code, result.error_message)
