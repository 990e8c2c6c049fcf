"""How the result of a step was chosen from the results of other steps."""

from __future__ import annotations

from dataclasses import dataclass

from archon.api.common.v1 import plan_pb2


@dataclass(frozen=True, slots=True)
class Vote:
    """The part of one result in a decision: its weight, and the support of its answer, which is the weight of all
    results that say the same."""

    step_id: str
    role: str
    weight: float
    support: float


@dataclass(frozen=True, slots=True)
class Resolution:
    """A decision by a rule. `winner_step_id` is empty if the rule left it undecided; `reason` says how it was decided,
    or why it was not."""

    rule: str
    winner_step_id: str
    reason: str
    votes: tuple[Vote, ...] = ()

    @property
    def proto(self) -> plan_pb2.Resolution:
        """The decision as a message."""
        votes = [
            plan_pb2.Vote(step_id=vote.step_id, role=vote.role, weight=vote.weight, support=vote.support)
            for vote in self.votes
        ]
        return plan_pb2.Resolution(rule=self.rule, winner_step_id=self.winner_step_id, reason=self.reason, votes=votes)

    @classmethod
    def from_proto(cls, message: plan_pb2.Resolution) -> Resolution:
        """Returns the decision that a message has."""
        votes = tuple(Vote(vote.step_id, vote.role, vote.weight, vote.support) for vote in message.votes)
        return cls(message.rule, message.winner_step_id, message.reason, votes)
