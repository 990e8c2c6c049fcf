"""The values that a decision reads and makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

UNDECIDED_REQUEST: Final = (
    "These answers differ, and no rule has decided between them. Reply with the right answer alone."
)
"""The request to a role that decides in place of a rule."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """The result of one step that a decision chooses from: `text` is its answer, a JSON value or plain text."""

    step_id: str
    text: str
    role: str = ""


@dataclass(frozen=True, slots=True)
class Bid:
    """A bidder's estimate for a step: the cost in millionths of a US dollar, the time in seconds, and the quality of
    the result by the bidder's own measure, from 0 to 1."""

    cost_micro_usd: int = 0
    seconds: float = 0.0
    quality: float = 0.0


@dataclass(frozen=True, slots=True)
class Vote:
    """The part of a candidate in a decision: its `weight`, and the `support` of its answer, which is the weight of all
    candidates that gave the same one. `bid` is the candidate if it is a bid."""

    step_id: str
    role: str
    weight: float
    support: float
    bid: Bid | None = None


@dataclass(frozen=True, slots=True)
class Resolution:
    """The outcome of a decision. `winner` is the step whose result is the decision's; empty if it is undecided.
    `reason` is a sentence that says how it was decided, or why it was not, `conflict` one that says which results
    differ; empty if all say the same."""

    rule: str
    winner: str
    reason: str
    votes: tuple[Vote, ...] = ()
    conflict: str = ""

    @property
    def is_decided(self) -> bool:
        """Whether the step of the decision completes: an award also does without a bid."""
        return bool(self.winner) or self.rule == "award"
