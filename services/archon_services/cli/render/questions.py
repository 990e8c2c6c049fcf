"""Questions that a run asks people, and the command that answers each."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from archon.api.common.v1 import question_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.run_view import Question, RunView
from archon.secret_answers import PREFIX, is_secret
from archon.wire import parts_text
from archon_services.cli.render.markdown_text import plain_text

SHORT: Final = 80
"""Characters of a question or an answer in a summary line."""

_SCHEMA_SHOWN: Final = 300

_DECISIONS: Final = {"approve": "approved", "reject": "rejected", "modify": "modified"}
_POLICIES: Final = {
    "abort": "the run fails",
    "default": "the default answer counts",
    "escalate": "the next approver is asked",
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
    is_breakpoint: bool = False
    """Whether the run is held at a breakpoint."""

    @property
    def short_id(self) -> str:
        """The id within its run, as accepted by `archon respond --question`."""
        return self.input_id.removeprefix(f"{self.run_id}.")

    @property
    def summary(self) -> str:
        """Id, role, and the beginning of the text."""
        return f"{self.short_id} ({self.role}: {truncate(plain_text(self.text))})"

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
        if self.is_breakpoint:
            return f"archon debug {self.run_id[:12]}{flag}"
        if self.is_approval:
            return f"archon respond {self.run_id[:12]} --question {shlex.quote(self.short_id)}{flag} --approve"
        answer = "" if self.is_secret else ' "..."'
        return f"archon respond {self.run_id[:12]} --question {shlex.quote(self.short_id)}{flag}{answer}"


def asked_question(view: RunView, event: run_pb2.RunEvent) -> PendingQuestion | None:
    """Returns the question that an event asks, None if it asks none. `view` has the event applied."""
    task = view.tasks.get(event.task.task_id)
    asks = event.HasField("input_requested") or event.HasField("approval_requested")
    return pending_question(view.run_id, task.questions[-1]) if asks and task is not None else None


def pending_question(run_id: str, question: run_pb2.Question | Question) -> PendingQuestion:
    """Converts a question of a run or of its view."""
    if isinstance(question, Question):
        text, is_approval, is_breakpoint = question.text, question.is_approval, bool(question.breakpoint)
    else:
        text, is_approval = parts_text(question.prompt), question.kind == question_pb2.QUESTION_KIND_APPROVAL
        is_breakpoint = question.terms.trigger == question_pb2.TRIGGER_BREAKPOINT
    return PendingQuestion(
        run_id, question.input_id, question.role, text, question.schema_json, is_approval, is_breakpoint
    )


def decision_text(question: Question) -> str:
    """Describes an answer: the decision, if there is one, and the beginning of its text, unless it is encrypted."""
    answer = question.answer or ""
    text = "(secret)" if answer.startswith(PREFIX) else truncate(answer)
    return ": ".join(filter(None, (_DECISIONS.get(question.decision), text)))


def timed_out_text(question: Question) -> str:
    """Describes the policy that was applied when no answer came in time."""
    rule = f" (rule {question.rule})" if question.rule else ""
    return f"no answer in time{rule}: {_POLICIES.get(question.timed_out, 'unknown policy')}"


def truncate(text: str, length: int = SHORT) -> str:
    """Joins the lines of `text` and cuts it to `length` characters."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[:length].rstrip() + "…"
