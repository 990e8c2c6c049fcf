"""Holds a task before calls of tools and models, where the run has a breakpoint: a person is asked.

The question ends the attempt, as the question of a tool does (`person_desk`): the hold survives the death of every
process. The next attempt asks no more for the calls that were held. A call of a sub-agent, a call for an item of a work
list, and a model call that follows no tool call since the last one hold within the attempt, which keeps its slot.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from typing_extensions import override

from archon.agent import TaskContext
from archon.json_text import json_object
from archon_mesh.agent.hooks.context import HookContext
from archon_mesh.agent.hooks.middleware import Middleware
from archon_mesh.agent.hooks.points import Outcome, fail, go_on, stop
from archon_mesh.core.people import (
    Breakpoint,
    BreakpointPoint,
    Decision,
    QuestionKind,
    find_breakpoint,
    parse_breakpoint,
)
from archon_mesh.node.person_desk import TaskDesk
from archon_mesh.node.task_hooks import messages_since_query
from archon_mesh.tools.people.ask import PersonQuestion
from archon_mesh.tools.people.tools import rejection
from archon_mesh.tools.result import ToolResult

MAX_SHOWN: Final = 4_000
"""Characters of arguments, or of the last message of a prompt, in the text of a question; a subject has all of it."""

MAX_SUBJECT: Final = 64 * 1024
"""Bytes of the subject of a question; a larger one is left out."""

ANSWER_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"answer": {"type": "string", "minLength": 1}},
    "required": ["answer"],
    "additionalProperties": False,
}
"""Schema of a reply that may replace a call of a model."""


class BreakpointMiddleware(Middleware):
    """Asks a person before a call at which the run has a breakpoint. Approve makes the call, modify makes it with other
    arguments or puts an answer in the place of the model's, reject fails the run."""

    inherited = True

    def __init__(self, task: TaskContext, desk: TaskDesk, *, within: bool = False) -> None:
        """With `within` the attempt goes on while it is held: it cannot end with a question."""
        self._breakpoints = tuple(map(parse_breakpoint, task.breakpoints))
        self._role = task.role
        self._desk = desk
        self._within = within
        self._results: dict[str, ToolResult] = {}
        """The results of the calls of the last reply, by their ids."""

    @override
    async def before_tool(self, hook: HookContext) -> Outcome | None:
        call = hook.tool_call
        assert call is not None
        found = find_breakpoint(self._breakpoints, BreakpointPoint.TOOL, call.name)
        registration = hook.agent.tools.find(call.name)
        schema = registration.tool.parameters_schema if registration is not None else None
        shown = json.dumps(hook.arguments, ensure_ascii=False, default=str)
        subject = {"tool": call.name, "arguments": hook.arguments}
        text = f"{hook.agent.name} is about to call {call.name}.\n{call.name} {shown[:MAX_SHOWN]}"
        question = _question(found, text, schema, subject) if found is not None else None
        answer = await (self._desk.wait(question) if self._within else self._desk.hold_call(question))
        if answer is None or answer.decision is Decision.APPROVE:
            return None
        if answer.decision is Decision.REJECT:
            return fail(rejection(f"the call of {call.name}", answer, _rule(found)))
        arguments = json_object(answer.text)
        if arguments is None:
            return stop(ToolResult.error("the call was modified by a person: the arguments are not one JSON object"))
        return go_on(arguments)

    @override
    async def before_model(self, hook: HookContext) -> Outcome | None:
        assert hook.params is not None
        found = find_breakpoint(self._breakpoints, BreakpointPoint.MODEL, self._role)
        question = None
        if found is not None:
            messages = hook.params.messages
            last = messages[-1].content if messages else ""
            text = (
                f"{hook.agent.name} is about to call its model: call {hook.state.current_iteration}, "
                f"{len(messages)} messages. The last one:\n{last[:MAX_SHOWN]}"
            )
            question = _question(found, text, ANSWER_SCHEMA, {"messages": [_message(each) for each in messages]})
        if self._within or hook.state.parent is not None:
            answer = await self._desk.wait(question)
        else:
            since, number = messages_since_query(hook), hook.state.current_iteration
            answer = await self._desk.hold_model(question, number, since, self._results)
        if answer is None or answer.decision is Decision.APPROVE:
            return None
        if answer.decision is Decision.REJECT:
            return fail(rejection(f"a model call of {hook.agent.name}", answer, _rule(found)))
        return stop(str((json_object(answer.text) or {}).get("answer") or answer.text))

    @override
    async def after_model(self, hook: HookContext) -> None:
        if hook.state.parent is None:
            self._results.clear()

    @override
    async def after_tool(self, hook: HookContext) -> None:
        if hook.state.parent is None and hook.tool_call is not None and hook.tool_result is not None:
            self._results[hook.tool_call.id] = hook.tool_result


def _question(
    found: Breakpoint, text: str, schema: Mapping[str, Any] | None, subject: Mapping[str, Any]
) -> PersonQuestion:
    held = f"The run is held at the breakpoint {found}. {text}"
    size = len(json.dumps(subject, ensure_ascii=False, default=str).encode(errors="replace"))
    return PersonQuestion(
        held, QuestionKind.APPROVAL, schema, subject if size <= MAX_SUBJECT else {"left_out": size}, found.terms
    )


def _message(message: Any) -> dict[str, Any]:
    calls: Sequence[Any] = message.tool_calls
    shown: dict[str, Any] = {"role": message.role, "content": message.content}
    if calls:
        shown["tool_calls"] = [{"name": call.name, "arguments": call.arguments_json} for call in calls]
    return shown


def _rule(found: Breakpoint | None) -> str:
    return found.terms.rule if found is not None else "breakpoint"
