"""The tool calls of one reply: executed concurrently, each with its hooks; a failed call does not affect the others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from archon.errors import ApprovalRejected, ArchonError, BudgetExhausted, OperationCancelled, QuestionTimedOut
from archon_mesh.agent.errors import ToolPolicyViolation
from archon_mesh.agent.events.emit import emit_tool_call, emit_tool_result
from archon_mesh.agent.hooks.context import HookContext
from archon_mesh.agent.hooks.points import HookDecision, HookEvent
from archon_mesh.agent.hooks.runner import HookRunner
from archon_mesh.agent.loop.old_files import drop_old_files
from archon_mesh.agent.loop.repeated_calls import CallKey, RepeatedCalls, key_of
from archon_mesh.agent.state.agent_state import AgentState, bind_call
from archon_mesh.core.media import files_of
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.core.tool_messages import tool_answer, tool_failure
from archon_mesh.tools.arguments import parse_arguments
from archon_mesh.tools.people.ask import QuestionAsked, bind_resumable_call, current_desk
from archon_mesh.tools.result import ToolOutcome, ToolResult, ToolResultStatus

MAX_RETRIES: Final = 3
"""How often hooks may retry one call; after that its result stands."""


_FATAL: Final = (OperationCancelled, BudgetExhausted, ApprovalRejected, QuestionTimedOut)
"""Errors of a tool that end the run, because no model can recover from them."""


@dataclass(slots=True)
class _CallOutcome:
    result: ToolResult
    answer: str | None = None
    """The answer with which a hook ended the run."""

    key: CallKey | None = None
    """The call; None if no tool was called."""

    error: BaseException | None = None
    """The exception behind the result, if the tool raised one."""


class ToolCaller:
    """Executes the tool calls of one run."""

    def __init__(self, state: AgentState, hooks: HookRunner) -> None:
        self._state = state
        self._hooks = hooks
        self.repeated = RepeatedCalls(state.agent.max_repeats)

    async def run(self, calls: Sequence[ToolCall], *, resumed: bool = False) -> str | None:
        """Executes the calls and appends one message per call to the history, in the order of the calls. Calls that are
        `resumed` come from an earlier attempt: the ones that had ended there are not executed again.

        Returns the run's answer if a hook ended the run or a tool of `exit_on_success` succeeded. If this method is
        cancelled or fails, unfinished calls are cancelled, and the history says so. Raises QuestionAsked, with the
        results of the other calls, if one of them asks a person and can be resumed later.
        """
        outcomes: list[_CallOutcome | None] = [None] * len(calls)
        desk = current_desk() if self._state.parent is None else None
        ended = desk.begin_calls(resumed=resumed) if desk is not None else {}
        questions: dict[int, QuestionAsked] = {}

        async def run_one(index: int, call: ToolCall) -> None:
            if index in ended:
                outcomes[index] = _CallOutcome(ended[index])
                return
            try:
                with bind_resumable_call(None if desk is None else index):
                    outcomes[index] = await self._run_call(call, index + 1)
            except QuestionAsked as asked:
                questions[index] = asked

        try:
            if len(calls) == 1:
                await run_one(0, calls[0])
            else:
                async with asyncio.TaskGroup() as group:
                    for index, call in enumerate(calls):
                        group.create_task(run_one(index, call), name=f"tool {call.name}")
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            self._state.history.extend(
                _as_message(call, outcome.result if outcome else ToolResult.error("cancelled before it was done"))
                for call, outcome in zip(calls, outcomes, strict=True)
            )
            drop_old_files(self._state.history)
        made = [outcome for outcome in outcomes if outcome is not None]
        self.repeated.note((outcome.key, _fingerprint(outcome.result)) for outcome in made if outcome.key is not None)
        for call, outcome in zip(calls, outcomes, strict=True):
            if outcome is not None and outcome.answer is not None:
                return outcome.answer
            if outcome is not None and outcome.result.ok and call.name in self._state.agent.exit_on_success:
                return outcome.result.text
        if questions:
            first = questions[min(questions)]
            first.results = {index: outcome.result for index, outcome in enumerate(outcomes) if outcome is not None}
            raise first
        return None

    async def run_one(self, call: ToolCall, number: int) -> ToolOutcome:
        """Executes a call that no model has written, with its hooks and events; it does not enter the history."""
        outcome = await self._run_call(call, number)
        return ToolOutcome(outcome.result, outcome.error)

    async def _run_call(self, call: ToolCall, number: int) -> _CallOutcome:
        state = self._state
        run_fields = state.event_fields()
        await emit_tool_call(state.emitter, run_fields, call.id, call.name, call.arguments_json)
        with bind_call(state, number):
            outcome = await (self._run_wrapped(call) if self._hooks.wraps_tool_call else self._run_with_hooks(call))
        result = outcome.result
        await emit_tool_result(state.emitter, run_fields, call.id, result.text, result.status, result.content)
        return outcome

    async def _run_wrapped(self, call: ToolCall) -> _CallOutcome:
        inner: _CallOutcome | None = None

        async def proceed() -> ToolResult:
            nonlocal inner
            inner = await self._run_with_hooks(call)
            return inner.result

        result = await self._hooks.wrap_tool_call(call, proceed)()
        if inner is None:
            return _CallOutcome(result)
        return _CallOutcome(result, inner.answer, inner.key, None if result.ok else inner.error)

    async def _run_with_hooks(self, call: ToolCall) -> _CallOutcome:
        try:
            arguments = dict(parse_arguments(call.arguments_json))
        except ArchonError as error:
            return await self._after_call(call, {}, self._state.agent.engine.refused(call.name, error), 0)
        if HookEvent.BEFORE_TOOL in self._hooks:
            context = self._context(HookEvent.BEFORE_TOOL, call, arguments)
            decision = await self._hooks.run(context)
            if decision.decision is HookDecision.STOP:
                value = decision.value
                return _CallOutcome(value if isinstance(value, ToolResult) else ToolResult(value))
            arguments = context.arguments
        key = key_of(call.name, arguments)
        if (refusal := self.repeated.refusal(key)) is not None:
            executed = self._state.agent.engine.refused(call.name, refusal)
        else:
            executed = await self._execute(call, arguments)
        outcome = await self._after_call(call, arguments, executed, 0)
        outcome.key = key
        outcome.error = executed.error if not outcome.result.ok else None
        return outcome

    async def _execute(self, call: ToolCall, arguments: dict[str, object]) -> ToolOutcome:
        state = self._state
        try:
            state.agent.policy.count_call(call.name, state.tool_calls)
        except ToolPolicyViolation as error:
            return state.agent.engine.refused(call.name, error)
        outcome = await state.agent.engine.run(call.name, arguments, agent_state=state, session_id=state.thread_id)
        if isinstance(outcome.error, _FATAL):
            raise outcome.error
        return outcome

    async def _after_call(
        self, call: ToolCall, arguments: dict[str, object], executed: ToolOutcome, retries: int
    ) -> _CallOutcome:
        """Runs the hooks for errors, if the call failed, and then those after every call."""
        result = executed.result
        for event in (HookEvent.TOOL_ERROR, HookEvent.AFTER_TOOL):
            if event not in self._hooks or (event is HookEvent.TOOL_ERROR and result.ok):
                continue
            error = executed.error if result is executed.result else None
            context = self._context(event, call, arguments, result, error)
            outcome = await self._hooks.run(context)
            if outcome.decision is HookDecision.RETRY and retries < MAX_RETRIES:
                return await self._after_call(call, arguments, await self._execute(call, arguments), retries + 1)
            if outcome.decision is HookDecision.STOP:
                return _CallOutcome(result, str(outcome.value))
            result = context.tool_result or result
        return _CallOutcome(result)

    def _context(
        self,
        event: HookEvent,
        call: ToolCall,
        arguments: dict[str, object],
        result: ToolResult | None = None,
        error: BaseException | None = None,
    ) -> HookContext:
        return HookContext(
            event,
            self._state.agent,
            self._state,
            tool_call=call,
            arguments=arguments,
            tool_result=result,
            error=error,
        )


def _fingerprint(result: ToolResult) -> str:
    """Returns a key that equal results share: two images of one size have the same text."""
    return "\0".join([result.text, *(file.digest for file in files_of(result.content))])


def _as_message(call: ToolCall, result: ToolResult) -> ChatMessage:
    if result.ok:
        return tool_answer(call, result.text, files_of(result.content))
    default = "DEADLINE_EXCEEDED" if result.status is ToolResultStatus.TIMEOUT else "UNKNOWN"
    code = result.metadata.get("code", default)
    return tool_failure(call, code, result.metadata.get("reason", code), result.error_message)
