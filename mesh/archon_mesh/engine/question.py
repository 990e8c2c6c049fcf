"""A question that a run has asked a person."""

from __future__ import annotations

from dataclasses import dataclass

from archon_mesh.core.people import NO_TERMS, QuestionKind, QuestionState, QuestionTerms
from archon_mesh.core.value import value


@dataclass(slots=True)
class OpenQuestion:
    """A question that waits for its answer. `asked` and `deadline` are in wall seconds (0: no deadline); `level` is the
    number of the approver who is asked now, from 0."""

    input_id: str
    kind: QuestionKind
    asked: float
    terms: QuestionTerms = NO_TERMS
    level: int = 0
    deadline: float = 0.0

    @property
    def approvers(self) -> tuple[str, ...]:
        """The identities that may answer now; empty: any."""
        return self.terms.asked_at(self.level)


@value
class ClosedQuestion:
    """A question that waits no more. `identity` is empty if no person answered. Times are in wall seconds."""

    input_id: str
    task_id: str
    role: str
    state: QuestionState
    identity: str
    rule: str
    asked: float
    closed: float
