"""The approval of a person, as a tool: a step with `approve` calls it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import override

from archon_mesh.core.people import DEFAULT_TIMEOUT, Decision, QuestionKind, QuestionTerms, TimeoutPolicy
from archon_mesh.tools.people.ask import PersonAnswer, PersonQuestion, ask_person
from archon_mesh.tools.people.tools import rejection
from archon_mesh.tools.result import ToolResult
from archon_mesh.tools.tool import Tool

APPROVE: Final = "approve"
"""The name of the tool."""

APPROVED: Final = "approved"
"""The result of a step that was approved as it is."""

SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "question": {"type": "string"},
        "approvers": {"type": "array", "items": {"type": "string"}},
        "timeout": {"type": "number"},
        "on_timeout": {"enum": ["abort", "default", "escalate"]},
        "default": {"type": "string"},
    },
    "required": ["question"],
}


def approval_question(arguments: Mapping[str, Any]) -> PersonQuestion:
    """Returns the question of a call of the tool."""
    text = str(arguments["question"])
    return PersonQuestion(text, QuestionKind.APPROVAL, subject={"question": text}, terms=terms_of(arguments))


def terms_of(arguments: Mapping[str, Any]) -> QuestionTerms:
    """Returns the approvers, the timeout, and the policy if no answer comes."""
    return QuestionTerms(
        "",
        tuple(arguments.get("approvers") or ()),
        round(float(arguments.get("timeout", DEFAULT_TIMEOUT)), 6),
        TimeoutPolicy[str(arguments.get("on_timeout") or "abort").upper()],
        str(arguments.get("default") or ""),
    )


def approved(question: PersonQuestion, answer: PersonAnswer) -> str:
    """Returns the result of an approval: `approved`, or the person's modification. Raises ApprovalRejected."""
    if answer.decision is Decision.REJECT:
        raise rejection(question.text, answer)
    return answer.text if answer.decision is Decision.MODIFY else APPROVED


class ApprovalTool(Tool):
    """Asks a person, for workflows that an agent executes in this process: see `answered_by`. A call is made once."""

    name = APPROVE
    description = "Asks a person for an approval."
    parameters_schema = SCHEMA
    timeout = math.inf

    @override
    async def execute(self, **kwargs: Any) -> ToolResult:
        question = approval_question(kwargs)
        answer = await ask_person(question)
        if answer.decision is Decision.REJECT:
            return ToolResult.error(rejection(question.text, answer).message)  # a step that may have an error branch
        return ToolResult.success(approved(question, answer))
