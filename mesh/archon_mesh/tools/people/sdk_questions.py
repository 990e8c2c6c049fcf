"""Questions to people as the SDK has them, for handlers of tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from archon import agent
from archon.agent import GivenAnswer, Question
from archon_mesh.core.people import NO_TERMS, Decision, QuestionKind, QuestionTerms, TimeoutPolicy, Trigger
from archon_mesh.tools.people.ask import PersonAnswer, PersonQuestion


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
    decision = Decision.__members__.get(given.decision.upper(), Decision.UNSPECIFIED)
    data = next((part.data_json for part in given.parts if part.data_json), "")
    return PersonAnswer(data or given.text, decision, given.identity)


def _terms(terms: QuestionTerms) -> agent.QuestionTerms | None:
    if terms == NO_TERMS:
        return None
    return agent.QuestionTerms(
        terms.rule,
        terms.approvers,
        terms.timeout,
        _name(TimeoutPolicy(terms.on_timeout)),
        terms.default,
        _name(Trigger(terms.trigger)),
    )


def _name(value: IntEnum) -> str:
    return value.name.lower() if value else ""


def _json(value: Mapping[str, Any] | None) -> str:
    return "" if value is None else json.dumps(dict(value), ensure_ascii=False, default=str)
