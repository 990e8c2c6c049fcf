"""Has a person approve calls of tools, as the rules of an agent say."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from typing_extensions import override

from archon.errors import InvalidArgument
from archon.json_text import json_object
from archon_mesh.agent.hooks.context import HookContext
from archon_mesh.agent.hooks.middleware import Middleware
from archon_mesh.agent.hooks.points import Outcome, fail, go_on, stop
from archon_mesh.core.people import (
    Decision,
    InterceptionRule,
    QuestionKind,
    Situation,
    Trigger,
    check_rules,
    rule_for,
)
from archon_mesh.tools.people.ask import PersonQuestion, ask_person
from archon_mesh.tools.people.tools import rejection
from archon_mesh.tools.result import ToolResult

MAX_SHOWN = 4_000
"""Characters of the arguments in the text of a question; all of them are its subject."""


class InterceptionMiddleware(Middleware):
    """Asks before a tool is called: approve calls it, modify calls it with other arguments, reject fails the run."""

    def __init__(self, rules: Iterable[InterceptionRule]) -> None:
        """Raises InvalidArgument if a rule has another trigger than TOOL."""
        self.rules = tuple(rules)
        check_rules(self.rules, [Trigger.TOOL])

    @override
    async def before_tool(self, hook: HookContext) -> Outcome | None:
        call = hook.tool_call
        assert call is not None
        registration = hook.agent.tools.find(call.name)
        tool = registration.tool if registration is not None else None
        dangerous = tool is not None and tool.dangerous
        rule = rule_for(self.rules, Situation(Trigger.TOOL, hook.agent.name, call.name, marked=dangerous))
        if rule is None:
            return None
        schema = tool.parameters_schema if tool is not None else None
        question = PersonQuestion(
            _text(rule, hook.agent.name, call.name, hook.arguments),
            QuestionKind.APPROVAL,
            schema,
            {"tool": call.name, "arguments": hook.arguments},
            rule.terms,
        )
        answer = await ask_person(question)
        if answer.decision is Decision.REJECT:
            return fail(rejection(f"the call of {call.name}", answer, rule.terms.rule))
        if answer.decision is not Decision.MODIFY:
            return None
        try:
            return go_on(_arguments(answer.text))
        except InvalidArgument as error:
            return stop(ToolResult.error(f"the call was modified by a person: {error}"))


def _text(rule: InterceptionRule, agent: str, tool: str, arguments: Mapping[str, Any]) -> str:
    shown = json.dumps(arguments, ensure_ascii=False, default=str)
    if len(shown) > MAX_SHOWN:
        shown = f"{shown[:MAX_SHOWN]}..."
    return f"{rule.message or f'Approve that {agent} calls {tool}?'}\n{tool} {shown}"


def _arguments(text: str) -> dict[str, Any]:
    if (arguments := json_object(text)) is None:
        raise InvalidArgument("the arguments are not one JSON object")
    return arguments
