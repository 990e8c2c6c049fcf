"""Questions to people as the SDK has them, for handlers of tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from archon import agent
from archon.agent import GivenAnswer, Question
from archon.agent.question import TimeoutPolicy as SdkPolicy
from archon.agent.question import Trigger as SdkTrigger
from archon_mesh.core.people import NO_TERMS, Decision, QuestionKind, QuestionTerms, TimeoutPolicy, Trigger
from archon_mesh.tools.people.ask import PersonAnswer, PersonQuestion

_POLICIES: Final[dict[int, SdkPolicy]] = {TimeoutPolicy.DEFAULT: "default", TimeoutPolicy.ESCALATE: "escalate"}
_TRIGGERS: Final[dict[int, SdkTrigger]] = {
    Trigger.TOOL: "tool",
    Trigger.PLAN: "plan",
    Trigger.REPLAN: "replan",
    Trigger.CHECKPOINT: "checkpoint",
    Trigger.CONFIDENCE: "confidence",
    Trigger.ERROR: "error",
}


def to_question(question: PersonQuestion, checkpoint: bytes = b"", input_id: str = "") -> Question:
    """Returns a question with which a handler ends its attempt."""
    return Question(
        question.text,
        _json(question.schema),
        checkpoint,
        input_id,
        is_approval=question.kind == QuestionKind.APPROVAL,
        terms=_terms(question.terms),
        subject_json=_json(question.subject),
    )


def to_answer(given: GivenAnswer) -> PersonAnswer:
    """Returns the answer that a later attempt was given."""
    decision = Decision[given.decision.upper()] if given.decision else Decision.UNSPECIFIED
    data = next((part.data_json for part in given.parts if part.data_json), "")
    return PersonAnswer(data or given.text, decision, given.identity)


def _terms(terms: QuestionTerms) -> agent.QuestionTerms | None:
    if terms == NO_TERMS:
        return None
    return agent.QuestionTerms(
        terms.approvers,
        terms.timeout,
        _POLICIES.get(terms.on_timeout, "abort"),
        terms.default,
        terms.rule,
        _TRIGGERS.get(terms.trigger, ""),
    )


def _json(value: Mapping[str, Any] | None) -> str:
    return "" if value is None else json.dumps(dict(value), ensure_ascii=False, default=str)
