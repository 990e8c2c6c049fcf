"""Executes a step of a plan that is a call of one tool: directly, if the plan has its arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from archon import status
from archon.agent import TaskContext
from archon.errors import ArchonError, InvalidArgument, MessageTooLarge, NotFound
from archon.failure_kinds import RetryAdvice
from archon.json_text import json_object
from archon.types import Part
from archon.wire import JSON_TYPE, TEXT_TYPE
from archon_mesh.agent.hooks.context import HookContext
from archon_mesh.agent.hooks.points import HookDecision, HookEvent
from archon_mesh.agent.hooks.runner import HookRunner
from archon_mesh.agent.loop.executor import run_loop
from archon_mesh.agent.plan_worker import AgentWorker
from archon_mesh.agent.state.agent_state import AgentState
from archon_mesh.core.media import Media
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.node.task_hooks import current_attempt
from archon_mesh.planning.exact import too_large, unfit_arguments
from archon_mesh.planning.worker import Spending
from archon_mesh.tools.failures import failure_of, failure_of_kind
from archon_mesh.tools.output_limit import CUT
from archon_mesh.tools.people.ask import bind_resumable_call, current_desk
from archon_mesh.tools.result import ToolOutcome, ToolResult, ToolResultStatus
from archon_mesh.tools.tool import Tool


class ToolStepRun:
    """One run of an agent that executes a step with a tool."""

    def __init__(self, task: TaskContext) -> None:
        self._task = task
        self._exact: tuple[str, list[Part]] = ("", [])
        """The result of an exact step as text, and with its type."""

    async def answer(
        self, state: AgentState, query: Sequence[ChatMessage], hooks: HookRunner, resume_from: Sequence[ChatMessage]
    ) -> str:
        """Finds the answer in place of `run_loop`: the result of the tool; the model calls the tool if its arguments
        are not complete, unless the step is exact. Raises the failure of the tool, which advises a retry only if a
        second call does no harm, and InvalidArgument, NotFound and MessageTooLarge for an exact step."""
        (name,) = self._task.allowed_tools
        worker = AgentWorker(state, hooks)
        tool, arguments = worker.tools.get_tool(name), json_object(self._task.tool_args_json or "{}")
        problem = tool.validate_args(arguments) if tool is not None and arguments is not None else ""
        if tool is None or arguments is None or problem is not None:
            if self._task.exact:
                raise _refusal(name, tool, problem or "they are no JSON object")
            return await run_loop(state, query, hooks, resume_from)
        outcome = await hooks.run(HookContext(HookEvent.BEFORE_AGENT, state.agent, state))
        if outcome.decision is HookDecision.STOP:
            return str(outcome.value)
        called = await self._call(worker, name, arguments, resumed=bool(resume_from))
        if not called.result.ok:
            raise _failure(called, tool)
        if self._task.exact:
            if CUT in called.result.metadata:
                raise MessageTooLarge(too_large(name, called.result.metadata[CUT]))
            self._exact = called.result.text, _exact_parts(called.result)
            return called.result.text
        # Many tools that act return nothing.
        return called.result.text or "done"

    def parts_of(self, answer: str) -> list[Part]:
        """Returns the result of an exact step with its type; nothing for any other, or if a hook has changed it."""
        text, parts = self._exact
        return parts if answer == text else []

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


def _exact_parts(result: ToolResult) -> list[Part]:
    """A text as it is; anything else, and a text without content, as JSON."""
    if isinstance(result.content, str) and result.content.strip():
        return [Part(text=result.content, media_type=TEXT_TYPE)]
    if any(True for _ in Media.among(result.content)):
        return [Part(text=result.text)]
    return [Part(data_json=json.dumps(result.content, ensure_ascii=False), media_type=JSON_TYPE)]


def _refusal(name: str, tool: Tool | None, problem: str) -> ArchonError:
    if tool is None:
        return NotFound(f"there is no tool {name!r}")
    return InvalidArgument(unfit_arguments(name, problem))


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
