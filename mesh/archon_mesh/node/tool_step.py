"""Executes a step of a plan that is a call of one tool: directly, if the plan has its arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from archon import status
from archon.agent import TaskContext
from archon.errors import ArchonError
from archon.failure_kinds import RetryAdvice
from archon_mesh.agent.hooks.context import HookContext
from archon_mesh.agent.hooks.points import HookDecision, HookEvent
from archon_mesh.agent.hooks.runner import HookRunner
from archon_mesh.agent.loop.executor import run_loop
from archon_mesh.agent.plan_worker import AgentWorker
from archon_mesh.agent.state.agent_state import AgentState
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.node.task_hooks import current_attempt
from archon_mesh.planning.worker import Spending
from archon_mesh.tools.failures import failure_of, failure_of_kind
from archon_mesh.tools.people.ask import bind_resumable_call, current_desk
from archon_mesh.tools.result import ToolOutcome, ToolResultStatus
from archon_mesh.tools.tool import Tool


class ToolStepRun:
    """One run of an agent that executes a step with a tool."""

    def __init__(self, task: TaskContext) -> None:
        self._task = task

    async def answer(
        self, state: AgentState, query: Sequence[ChatMessage], hooks: HookRunner, resume_from: Sequence[ChatMessage]
    ) -> str:
        """Finds the answer in place of `run_loop`: the result of the tool; the model calls the tool if its arguments
        are not complete. Raises the failure of the tool, which advises a retry only if a second call does no harm."""
        (name,) = self._task.allowed_tools
        worker = AgentWorker(state, hooks)
        tool, arguments = worker.tools.get_tool(name), _arguments(self._task.tool_args_json)
        if tool is None or arguments is None or tool.validate_args(arguments) is not None:
            return await run_loop(state, query, hooks, resume_from)
        outcome = await hooks.run(HookContext(HookEvent.BEFORE_AGENT, state.agent, state))
        if outcome.decision is HookDecision.STOP:
            return str(outcome.value)
        called = await self._call(worker, name, arguments, resumed=bool(resume_from))
        if not called.result.ok:
            raise _failure(called, tool)
        # Many tools that act return nothing.
        return called.result.text or "done"

    async def _call(
        self, worker: AgentWorker, name: str, arguments: Mapping[str, Any], *, resumed: bool
    ) -> ToolOutcome:
        """Calls the tool; if it asks a person, the attempt ends, and the next one calls it again with the answer."""
        desk, attempt = current_desk(), current_attempt()
        if desk is None or attempt is None:
            return await worker.call_tool(name, arguments, 1, Spending())
        desk.begin_calls(resumed=resumed)
        attempt.set_checkpoint([ChatMessage("assistant", "", (ToolCall("step", name, self._task.tool_args_json),))])
        with bind_resumable_call(0):
            return await worker.call_tool(name, arguments, 1, Spending())


def _arguments(text: str) -> Mapping[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _failure(outcome: ToolOutcome, tool: Tool) -> ArchonError:
    if outcome.error is not None:
        failure = failure_of(outcome.error)
    else:
        failure = failure_of_kind("tool.timeout" if outcome.result.status is ToolResultStatus.TIMEOUT else "tool.crash")
    may_repeat = tool.idempotent or bool(tool.retries)
    return status.error_class(failure.code, failure.reason)(
        outcome.result.error_message,
        reason=failure.reason,
        kind=failure.kind,
        retry_delay=failure.retry_delay,
        retry=None if may_repeat and failure.is_transient else RetryAdvice.NEVER,
    )
