"""Questions to people as the SDK has them, for handlers of tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from archon.agent import Question
from archon.agent.values import GivenAnswer
from archon.api.common.v1 import question_pb2
from archon.wire import set_seconds
from archon_mesh.core.people import NO_TERMS, Decision, QuestionTerms
from archon_mesh.tools.people.ask import PersonAnswer, PersonQuestion


def to_question(question: PersonQuestion, checkpoint: bytes = b"", input_id: str = "") -> Question:
    """Returns a question with which a handler ends its attempt."""
    return Question(
        question.text,
        _json(question.schema),
        checkpoint,
        input_id,
        kind=question_pb2.QuestionKind.ValueType(question.kind),
        terms=_terms(question.terms),
        subject_json=_json(question.subject),
    )


def to_answer(given: GivenAnswer) -> PersonAnswer:
    """Returns the answer that a later attempt was given."""
    number = int(given.decision)
    decision = Decision(number) if number in list(Decision) else Decision.UNSPECIFIED
    data = next((part.data_json for part in given.parts if part.data_json), "")
    return PersonAnswer(data or given.text, decision, given.identity)


def _terms(terms: QuestionTerms) -> question_pb2.QuestionTerms | None:
    if terms == NO_TERMS:
        return None
    out = question_pb2.QuestionTerms(
        rule=terms.rule,
        approvers=terms.approvers,
        on_timeout=question_pb2.TimeoutPolicy.ValueType(terms.on_timeout),
        default_answer=terms.default,
        trigger=question_pb2.Trigger.ValueType(terms.trigger),
    )
    if terms.timeout:
        set_seconds(out.timeout, terms.timeout)
    return out


def _json(value: Mapping[str, Any] | None) -> str:
    return "" if value is None else json.dumps(dict(value), ensure_ascii=False, default=str)
