"""Questions to people as interrupts of AG-UI, and the answers that resume a run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ag_ui.core import Interrupt, ResumeEntry

from archon.errors import FieldViolation, InvalidArgument, UnknownInterrupt
from archon.json_text import json_object, json_or
from archon.plain_text import iso_time
from archon.secret_answers import is_secret, seal
from archon.types.part import Part, json_part
from archon.types.run_question import RunQuestion

INPUT: Final = "input_required"
CONFIRMATION: Final = "confirmation"
TOOL_CALL: Final = "tool_call"
SECRET: Final = "archon:secret"
"""The reasons of interrupts."""

_FREE_TEXT: Final = {"type": "string", "minLength": 1}
_SECRET_TEXT: Final = {"type": "string", "minLength": 1, "format": "password", "writeOnly": True}


@dataclass(frozen=True, slots=True)
class InterruptId:
    """The id of an interrupt: the run, the question, and the time in milliseconds of the newest question that was open
    with it. A resume answers all questions of that time and before."""

    run_id: str
    time: int
    input_id: str

    def __str__(self) -> str:
        return f"{self.run_id}/{self.time}/{self.input_id}"

    @classmethod
    def parse(cls, text: str) -> InterruptId:
        """Returns the id that a text is. Raises UnknownInterrupt."""
        run_id, _, rest = text.partition("/")
        time, _, input_id = rest.partition("/")
        if not run_id or not input_id or not (time.isascii() and time.isdigit()) or len(time) > 15:
            raise UnknownInterrupt(f"no run has asked with the interrupt {text[:200]!r}")
        return cls(run_id, int(time), input_id)


def asked_at(question: RunQuestion) -> int:
    """Returns when a question was asked, in milliseconds since the epoch."""
    return round(question.create_time * 1_000)


def interrupts_of(
    questions: Sequence[RunQuestion], *, owners: Mapping[str, str | None], calls: Mapping[str, str | None]
) -> list[Interrupt]:
    """Returns open questions as interrupts. `owners` has the sub-agent of each task that asks, `calls` the tool call
    that each question is about, by the question's id."""
    newest = max(map(asked_at, questions))
    return [
        Interrupt(
            id=str(InterruptId(question.run_id, newest, question.input_id)),
            reason=_reason(question, calls.get(question.input_id)),
            message=question.text or "The agent asks for input.",
            tool_call_id=calls.get(question.input_id),
            response_schema=_schema(question),
            expires_at=_expiry(question),
            metadata=_metadata(question),
            subagent_run_id=owners.get(question.task_id),
        )
        for question in questions
    ]


def tool_of(question: RunQuestion) -> tuple[str, str]:
    """Returns the tool whose call an approval is about, and the arguments as JSON; empty if it is about something
    else."""
    subject = json_object(question.subject_json) or {}
    tool, arguments = subject.get("tool"), subject.get("arguments")
    if not question.is_approval or not isinstance(tool, str):
        return "", ""
    return tool, json.dumps(arguments if isinstance(arguments, dict) else {}, ensure_ascii=False)


def _reason(question: RunQuestion, call: str | None) -> str:
    if is_secret(question.schema_json):
        return SECRET
    if question.is_approval:
        return TOOL_CALL if call else CONFIRMATION
    return INPUT


def _schema(question: RunQuestion) -> dict[str, Any]:
    if is_secret(question.schema_json):
        return dict(_SECRET_TEXT)
    schema = json_object(question.schema_json)
    if not question.is_approval:
        return schema if schema is not None else dict(_FREE_TEXT)
    edited = {**(schema or {}), "description": "Takes the place of what waits, as a whole."}
    return {
        "type": "object",
        "properties": {
            "approved": {"type": "boolean"},
            "reason": {"type": "string"},
            "editedArgs": edited if tool_of(question)[0] or schema is None else schema,
        },
        "required": ["approved"],
    }


def _expiry(question: RunQuestion) -> str | None:
    terms = question.terms
    if not question.expire_time or (terms is not None and terms.on_timeout == "escalate"):
        return None  # after the turn of one approver, the next one may still answer
    return iso_time(question.expire_time)


def _metadata(question: RunQuestion) -> dict[str, Any]:
    kind = "secret" if is_secret(question.schema_json) else "approval" if question.is_approval else "input"
    metadata: dict[str, Any] = {"dev.archon/role": question.role, "dev.archon/question-kind": kind}
    if question.approvers:
        metadata["dev.archon/approvers"] = list(question.approvers)
    if (subject := json_object(question.subject_json)) is not None:
        metadata["dev.archon/subject"] = subject
    if question.plan is not None:
        metadata["dev.archon/plan"] = json_or(question.plan.to_json())
    return metadata


@dataclass(frozen=True, slots=True)
class AnswerGiven:
    """The answer to a question: its content, and the decision if it is an approval. `abandons`: there is none, and the
    run has to be cancelled."""

    input_id: str
    parts: Sequence[Part] = ()
    decision: str = ""
    abandons: bool = False
    is_secret: bool = False


def answer_to(question: RunQuestion, entry: ResumeEntry) -> AnswerGiven:
    """Returns the answer that an entry of a resume gives to a question. The answer to a secret question is encrypted
    here. Raises InvalidArgument if the entry has no answer of the form that was asked for."""
    if entry.status == "cancelled":
        if question.is_approval:
            return AnswerGiven(question.input_id, [Part(text="cancelled by the user")], "reject")
        return AnswerGiven(question.input_id, abandons=True)
    payload = entry.payload
    if payload is None or payload == "":
        raise _wrong("an answer is missing")
    if is_secret(question.schema_json):
        if not isinstance(payload, str):
            raise _wrong("the answer to a secret question is one text")
        return AnswerGiven(question.input_id, [Part(text=seal(question.schema_json, payload))], is_secret=True)
    if question.is_approval:
        return _decided(question, payload)
    return AnswerGiven(question.input_id, [_part(payload, has_schema=bool(question.schema_json))])


def _decided(question: RunQuestion, payload: Any) -> AnswerGiven:
    if isinstance(payload, bool):
        payload = {"approved": payload}
    if not isinstance(payload, dict) or not isinstance(payload.get("approved"), bool):
        raise _wrong("the answer to an approval has the key `approved`, true or false")
    reason = payload.get("reason", "")
    if not isinstance(reason, str):
        raise _wrong("`reason` is a text")
    parts = [Part(text=reason)] if reason else []
    if not payload["approved"]:
        return AnswerGiven(question.input_id, parts, "reject")
    if payload.get("editedArgs") is None:
        return AnswerGiven(question.input_id, parts, "approve")
    return AnswerGiven(question.input_id, [_part(payload["editedArgs"], has_schema=True)], "modify")


def _part(value: Any, *, has_schema: bool) -> Part:
    """Returns an answer as a part. A text that would read as another JSON value is JSON if a schema judges it."""
    if isinstance(value, str) and not (has_schema and not isinstance(json_or(value, ""), str)):
        return Part(text=value)
    return json_part(json.dumps(value, ensure_ascii=False))


def _wrong(text: str) -> InvalidArgument:
    return InvalidArgument(text, field_violations=[FieldViolation("resume", text)])
