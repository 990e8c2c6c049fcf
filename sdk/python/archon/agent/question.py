"""Questions of handlers to people, and the answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import question_pb2
from archon.surrogates import without_surrogates
from archon.types.enum_name import enum_name
from archon.types.part import Part, add_parts, to_parts
from archon.types.question_terms import QuestionTerms
from archon.wire import is_text, text_of


@dataclass(frozen=True, slots=True)
class Question:
    """Return it from a handler to ask a person. The attempt ends and frees its slot, and the run's clock stops. The
    next attempt, on any instance, receives the answer as `task.inputs` and `checkpoint` as `task.checkpoint`.

    `schema_json` is a JSON Schema (2020-12) that the answer must match; empty means free text. `input_id` is unique in
    the task; if empty it is derived from the attempt. `parts` precede `text`.

    Of an approval (`is_approval`) a decision is expected: approve, reject or modify. The schema is then the
    modification's, and `subject_json` the subject of the decision, as one JSON object. `terms` has the approvers, the
    time limit and the action without an answer; None: anyone, without limit.
    """

    text: str = ""
    schema_json: str = ""
    checkpoint: bytes = b""
    input_id: str = ""
    parts: Sequence[Part] = ()
    is_approval: bool = False
    terms: QuestionTerms | None = None
    subject_json: str = ""


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """A person's answer to a question. `decision` is `approve`, `reject` or `modify`, empty if the question was no
    approval; with one, the text is its reason or the modification. `identity` is empty if the default answer counts
    because no answer came in time."""

    input_id: str
    text: str
    parts: Sequence[Part] = ()
    decision: str = ""
    identity: str = ""


def question_to_proto(question: Question, input_id: str) -> agent_pb2.InputRequest:
    """Returns a question as a message."""
    request = agent_pb2.InputRequest(input_id=input_id, schema_json=question.schema_json)
    if question.is_approval:
        request.kind = question_pb2.QUESTION_KIND_APPROVAL
    add_parts(request.prompt, question.parts)
    if question.text:
        request.prompt.add(text=without_surrogates(question.text))
    if question.terms is not None:
        request.terms.CopyFrom(question.terms.proto)
    request.subject_json = question.subject_json
    return request


def question_from_proto(request: agent_pb2.InputRequest, checkpoint: bytes = b"") -> Question:
    """Returns the question that a message has, with texts and JSON values joined in `text`, and all other parts in
    `parts`."""
    return Question(
        text_of(request.prompt),
        request.schema_json,
        checkpoint,
        request.input_id,
        tuple(Part.from_proto(part) for part in request.prompt if not is_text(part)),
        request.kind == question_pb2.QUESTION_KIND_APPROVAL,
        QuestionTerms.from_proto(request.terms) if request.HasField("terms") else None,
        request.subject_json,
    )


def answer_from_proto(answer: agent_pb2.ResumedInput | session_pb2.Input) -> GivenAnswer:
    """Returns the answer that a message has."""
    decision = enum_name(question_pb2.Decision, "DECISION_", answer.decision)
    return GivenAnswer(answer.input_id, text_of(answer.parts), to_parts(answer.parts), decision, answer.identity)
