"""Questions of handlers to people, and what people answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import question_pb2
from archon.errors import InvalidArgument
from archon.surrogates import without_surrogates
from archon.types.part import Part, add_parts, to_parts
from archon.wire import set_seconds, text_of, to_seconds

Decision = Literal["approve", "reject", "modify", ""]
"""A person's decision about an approval; empty if the question was none."""

TimeoutPolicy = Literal["abort", "default", "escalate"]
"""What follows if no answer comes in time: the run fails; the default answer counts; the next approver is asked."""

Trigger = Literal["tool", "plan", "replan", "checkpoint", "confidence", "error", ""]
"""The point at which a rule has a person asked; empty if an agent asks by itself."""

_DECISIONS: Final[dict[int, Decision]] = {
    question_pb2.DECISION_APPROVE: "approve",
    question_pb2.DECISION_REJECT: "reject",
    question_pb2.DECISION_MODIFY: "modify",
}
_POLICIES: Final[dict[TimeoutPolicy, question_pb2.TimeoutPolicy.ValueType]] = {
    "abort": question_pb2.TIMEOUT_POLICY_ABORT,
    "default": question_pb2.TIMEOUT_POLICY_DEFAULT,
    "escalate": question_pb2.TIMEOUT_POLICY_ESCALATE,
}
_POLICY_OF: Final[dict[int, TimeoutPolicy]] = {int(number): policy for policy, number in _POLICIES.items()}
_TRIGGERS: Final[dict[Trigger, question_pb2.Trigger.ValueType]] = {
    "tool": question_pb2.TRIGGER_TOOL,
    "plan": question_pb2.TRIGGER_PLAN,
    "replan": question_pb2.TRIGGER_REPLAN,
    "checkpoint": question_pb2.TRIGGER_CHECKPOINT,
    "confidence": question_pb2.TRIGGER_CONFIDENCE,
    "error": question_pb2.TRIGGER_ERROR,
    "": question_pb2.TRIGGER_UNSPECIFIED,
}
_TRIGGER_OF: Final[dict[int, Trigger]] = {int(number): trigger for trigger, number in _TRIGGERS.items()}


@dataclass(frozen=True, slots=True)
class QuestionTerms:
    """Who may answer a question, in what time, and what follows if no answer comes.

    `approvers` are the identities that may answer, in the order in which they are asked; empty: any. `timeout` is in
    seconds; 0: no limit but that of a pause of the run. With `on_timeout` "default", `default_answer` counts: approve,
    reject, or the text of an answer; with "escalate" the next approver is asked, and has the same time. `rule` and
    `trigger` name the rule that has the question asked; empty if an agent asks by itself.

    Raises InvalidArgument for an unknown `on_timeout` or `trigger`, or a negative `timeout`.
    """

    approvers: Sequence[str] = ()
    timeout: float = 0.0
    on_timeout: TimeoutPolicy = "abort"
    default_answer: str = ""
    rule: str = ""
    trigger: Trigger = ""

    def __post_init__(self) -> None:
        _check("on_timeout", self.on_timeout, _POLICIES)
        _check("trigger", self.trigger, _TRIGGERS)
        if not self.timeout >= 0:
            raise InvalidArgument(f"timeout must be 0 or more seconds, not {self.timeout}")

    @property
    def proto(self) -> question_pb2.QuestionTerms:
        """The terms as a message."""
        message = question_pb2.QuestionTerms(
            rule=self.rule,
            approvers=self.approvers,
            on_timeout=_POLICIES[self.on_timeout],
            default_answer=self.default_answer,
            trigger=_TRIGGERS[self.trigger],
        )
        if self.timeout:
            set_seconds(message.timeout, self.timeout)
        return message

    @classmethod
    def from_proto(cls, message: question_pb2.QuestionTerms) -> QuestionTerms:
        """Returns the terms that a message has."""
        return cls(
            tuple(message.approvers),
            to_seconds(message.timeout),
            _POLICY_OF.get(message.on_timeout, "abort"),
            message.default_answer,
            message.rule,
            _TRIGGER_OF.get(message.trigger, ""),
        )


@dataclass(frozen=True, slots=True)
class Question:
    """Return it from a handler to ask a person. The attempt ends and frees its slot, and the run's clock stops. The
    next attempt, on any instance, receives the answer as `task.inputs` and `checkpoint` as `task.checkpoint`.

    `schema_json` is a JSON Schema (2020-12) that the answer must match; empty means free text. `input_id` is unique in
    the task; if empty it is derived from the attempt. `parts` precede `text`.

    Of an approval (`is_approval`) a decision is expected: approve, reject or modify, where the schema is that of the
    modification, and `subject_json` what the decision is about, as one JSON object. `terms` say who may answer, in what
    time, and what follows if no answer comes; None: anyone, without limit.
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
    """A person's answer to a question. With a `decision`, the text is its reason or the modification. `identity` is
    empty if the default answer counts because no answer came in time."""

    input_id: str
    text: str
    parts: Sequence[Part] = ()
    decision: Decision = ""
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


def answer_from_proto(answer: agent_pb2.ResumedInput | session_pb2.Input) -> GivenAnswer:
    """Returns the answer that a message has."""
    decision = _DECISIONS.get(answer.decision, "")
    return GivenAnswer(answer.input_id, text_of(answer.parts), to_parts(answer.parts), decision, answer.identity)


def _check(name: str, value: str, known: dict[Any, Any]) -> None:
    if value not in known:
        raise InvalidArgument(f"unknown {name} {value!r}; use one of {', '.join(filter(None, known))}")
