"""Tools that a model calls to ask a person: for approval, for guidance, for data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from typing_extensions import override

from archon.errors import ApprovalRejected, InvalidArgument
from archon.json_text import json_or
from archon_mesh.core.people import DEFAULT_TIMEOUT, Decision, QuestionKind, QuestionTerms, TimeoutPolicy
from archon_mesh.core.people.terms import terms_mistakes
from archon_mesh.tools.people.ask import PersonAnswer, PersonQuestion, ask_person
from archon_mesh.tools.result import ToolResult
from archon_mesh.tools.tool import Tool

MAX_TEXT: Final = 16_000
"""Characters of a question."""

_TEXT: Final = {"type": "string", "minLength": 1, "maxLength": MAX_TEXT}


class _PersonTool(Tool):
    """Base class of the tools that ask a person. The wait has the limit of the question, not of a call."""

    timeout = math.inf

    def __init__(
        self,
        name: str = "",
        *,
        approvers: Sequence[str] = (),
        answer_timeout: float = DEFAULT_TIMEOUT,
        on_timeout: TimeoutPolicy | str = TimeoutPolicy.ABORT,
        default: str = "",
    ) -> None:
        """`approvers` are the identities that may answer, by default any. `answer_timeout` is in seconds, for each
        approver if `on_timeout` is `escalate`; with `abort` the run fails, with `default` the `default` answer counts.

        Raises InvalidArgument if a value is out of range.
        """
        self.name = name or self.name
        policy = on_timeout if isinstance(on_timeout, TimeoutPolicy) else _policy(on_timeout)
        self.terms = QuestionTerms("", tuple(approvers), round(answer_timeout, 6), policy, default)
        if mistakes := terms_mistakes(self.terms):
            field, mistake = mistakes[0]
            raise InvalidArgument(f"tool {self.name}: {field}: {mistake}")


class HumanApprovalTool(_PersonTool):
    """Has a person approve, reject or modify the model's next action."""

    name = "human_approval"
    description = (
        "Asks a person for approval before an action with consequences. Returns the decision: approved, or modified "
        "with the person's instructions, which replace your action."
    )
    parameters_schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "action": {**_TEXT, "description": "what you are about to do, with all that matters for the decision"},
            "reason": {"type": "string", "maxLength": MAX_TEXT, "description": "why it is necessary"},
        },
        "required": ["action"],
        "additionalProperties": False,
    }

    def __init__(self, name: str = "", *, stop_on_reject: bool = True, **terms: Any) -> None:
        """With `stop_on_reject` a rejection fails the run with ApprovalRejected; without it, the rejection is the
        result of the call. The other arguments are shared by all tools that ask a person: `approvers`, `answer_timeout`
        (seconds, 300 by default), `on_timeout` (`abort`, `default` or `escalate`) and `default`."""
        super().__init__(name, **terms)
        self.stop_on_reject = stop_on_reject

    @override
    async def execute(self, **kwargs: Any) -> Any:
        action, reason = kwargs["action"], kwargs.get("reason", "")
        text = f"{action}\n\nReason: {reason}" if reason else action
        subject = {"action": action, "reason": reason}
        answer = await ask_person(PersonQuestion(text, QuestionKind.APPROVAL, subject=subject, terms=self.terms))
        if answer.decision is Decision.REJECT:
            if self.stop_on_reject:
                raise rejection(action, answer)
            return ToolResult.error(f"rejected by a person: {answer.text or 'no reason given'}")
        if answer.decision is Decision.MODIFY:
            return {"decision": "modified", "instructions": answer.text}
        return {"decision": "approved", "comment": answer.text} if answer.text else {"decision": "approved"}


class HumanGuidanceTool(_PersonTool):
    """Asks a person how to go on."""

    name = "human_guidance"
    description = "Asks a person for guidance if you cannot decide by yourself how to go on. Returns the answer."
    parameters_schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "question": {**_TEXT, "description": "the question, with what the person must know to answer it"},
            "options": {
                "type": "array",
                "items": {"type": "string"},
                "maxItems": 20,
                "description": "possible answers; the person may give another one",
            },
        },
        "required": ["question"],
        "additionalProperties": False,
    }

    @override
    async def execute(self, **kwargs: Any) -> Any:
        question, options = kwargs["question"], kwargs.get("options", ())
        lines = [question, *(f"  {number}. {option}" for number, option in enumerate(options, 1))]
        answer = await ask_person(PersonQuestion("\n".join(lines), terms=self.terms))
        chosen = answer.text.strip()
        if chosen.isdecimal() and 1 <= int(chosen) <= len(options):
            return options[int(chosen) - 1]
        return answer.text


class HumanInputTool(_PersonTool):
    """Asks a person for data that matches a JSON Schema."""

    name = "human_input"
    description = "Asks a person for data that only a person has. Returns the answer."
    parameters_schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {"question": {**_TEXT, "description": "what data is needed, and what for"}},
        "required": ["question"],
        "additionalProperties": False,
    }

    def __init__(self, name: str = "", *, schema: Mapping[str, Any] | None = None, **terms: Any) -> None:
        """`schema` is a JSON Schema (2020-12) that the answer must match; by default the answer is a text. The other
        arguments are as in HumanApprovalTool."""
        super().__init__(name, **terms)
        self.schema = schema
        self.result_schema = schema

    @override
    async def execute(self, **kwargs: Any) -> Any:
        answer = await ask_person(PersonQuestion(kwargs["question"], schema=self.schema, terms=self.terms))
        if self.schema is None:
            return answer.text
        return json_or(answer.text, answer.text)  # a text that is no JSON is one that the schema allows


def rejection(what: str, answer: PersonAnswer, rule: str = "") -> ApprovalRejected:
    """Returns the error of an action that was rejected."""
    by = f"by {answer.identity}" if answer.identity else "because no answer came in time"
    reason = f": {answer.text}" if answer.text else ""
    shown = " ".join(what.split())
    shown = shown if len(shown) <= 200 else f"{shown[:200]}..."
    metadata = {"identity": answer.identity, **({"rule": rule} if rule else {})}
    return ApprovalRejected(f"rejected {by}: {shown}{reason}", metadata=metadata)


def _policy(name: str) -> TimeoutPolicy:
    try:
        return TimeoutPolicy[name.upper()]
    except KeyError:
        raise InvalidArgument(f"on_timeout: {name!r} is not one of abort, default, escalate") from None
