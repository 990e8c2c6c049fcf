"""Questions that a run asks people, and the command that answers each."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from archon.api.common.v1 import common_pb2, question_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.secret_answers import PREFIX, is_secret

SHORT: Final = 80
"""Characters of a question or an answer in a summary line."""

_SCHEMA_SHOWN: Final = 300

_DECISIONS: Final = {
    question_pb2.DECISION_APPROVE: "approved",
    question_pb2.DECISION_REJECT: "rejected",
    question_pb2.DECISION_MODIFY: "modified",
}
_POLICIES: Final = {
    question_pb2.TIMEOUT_POLICY_ABORT: "the run fails",
    question_pb2.TIMEOUT_POLICY_DEFAULT: "the default answer counts",
    question_pb2.TIMEOUT_POLICY_ESCALATE: "the next approver is asked",
}


@dataclass(frozen=True, slots=True)
class PendingQuestion:
    """A question of a run that has no answer yet."""

    run_id: str
    input_id: str
    role: str
    text: str
    schema_json: str
    is_approval: bool = False
    """Whether a decision is expected: approve, reject or modify."""

    @property
    def short_id(self) -> str:
        """The id within its run, as accepted by `archon respond --question`."""
        return self.input_id.removeprefix(f"{self.run_id}.")

    @property
    def summary(self) -> str:
        """Id, role, and the beginning of the text."""
        return f"{self.short_id} ({self.role}: {truncate(self.text)})"

    @property
    def is_secret(self) -> bool:
        """Whether the answer is encrypted before it is sent."""
        return is_secret(self.schema_json)

    @property
    def schema_line(self) -> str:
        """The JSON Schema of the answer; empty if any answer is valid."""
        if self.is_secret:
            return f"The answer is secret: `archon respond` encrypts it for {self.role}."
        if self.is_approval:
            return "Approve, reject, or modify."
        return f"Answer schema: {truncate(self.schema_json, _SCHEMA_SHOWN)}" if self.schema_json else ""

    def lines(self) -> Iterator[str]:
        """Yields the whole question and its schema."""
        yield from (line for line in self.text.splitlines() if line.strip())
        if self.schema_line:
            yield self.schema_line

    def command(self, flag: str = "") -> str:
        """Returns the command that answers it; `flag` is appended to reach the orchestrator. A secret is no argument of
        it, so that it stays out of the shell's history: the command prompts for it."""
        if self.is_approval:
            return f"archon respond {self.run_id[:12]} --question {shlex.quote(self.short_id)}{flag} --approve"
        answer = "" if self.is_secret else ' "..."'
        return f"archon respond {self.run_id[:12]} --question {shlex.quote(self.short_id)}{flag}{answer}"


Asked = run_pb2.Question | run_pb2.InputRequested | run_pb2.ApprovalRequested


def question_of(event: run_pb2.RunEvent) -> run_pb2.InputRequested | run_pb2.ApprovalRequested | None:
    """Returns the question that an event asks, None if it asks none."""
    if event.HasField("input_requested"):
        return event.input_requested
    return event.approval_requested if event.HasField("approval_requested") else None


def pending_question(run_id: str, question: Asked, role: str = "") -> PendingQuestion:
    """Converts a question from a run or from its event. `role` is that of a request for approval, whose event names it
    with the result."""
    text = parts_text(question.prompt)
    if isinstance(question, run_pb2.ApprovalRequested):
        return PendingQuestion(run_id, question.input_id, role, text, "", is_approval=True)
    is_approval = question.kind == question_pb2.QUESTION_KIND_APPROVAL
    return PendingQuestion(run_id, question.input_id, question.role, text, question.schema_json, is_approval)


def decision_text(given: run_pb2.InputGiven) -> str:
    """Describes an answer: the decision, if there is one, and the beginning of its text."""
    text = answer_text(given.parts)
    if not given.decision:
        return text
    decision = _DECISIONS.get(given.decision, "decided")
    return f"{decision}: {text}" if text else decision


def timed_out_text(event: run_pb2.QuestionTimedOut) -> str:
    """Describes what followed when no answer came in time."""
    rule = f" (rule {event.rule})" if event.rule else ""
    return f"no answer in time{rule}: {_POLICIES.get(event.policy, 'unknown policy')}"


def answer_text(parts: Sequence[common_pb2.Part]) -> str:
    """Returns the beginning of an answer as `parts_text` shows it, and only the fact for one that is encrypted."""
    text = parts_text(parts)
    return "(secret)" if text.startswith(PREFIX) else truncate(text)


def parts_text(parts: Sequence[common_pb2.Part]) -> str:
    """Returns text, data and URLs as they are, and the file name or media type of other parts in brackets."""
    return "\n".join(filter(None, map(_part_text, parts)))


def _part_text(part: common_pb2.Part) -> str:
    match part.WhichOneof("content"):
        case "text":
            text = part.text.strip()
        case "data_json":
            text = part.data_json
        case "url":
            text = part.url
        case _:
            text = "" if part.filename else f"[{part.media_type or 'content'}]"
    return f"[{part.filename}] {text}".rstrip() if part.filename else text


def truncate(text: str, length: int = SHORT) -> str:
    """Joins the lines of `text` and cuts it to `length` characters."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[:length].rstrip() + "…"
