"""How the result of a step was chosen from the results of other steps."""

from __future__ import annotations

from dataclasses import dataclass

from archon.api.common.v1 import plan_pb2
from archon.types.bid import Bid


@dataclass(frozen=True, slots=True)
class Vote:
    """The part of one result in a decision: its weight, and the support of its answer, which is the weight of all
    results that say the same. `bid` is the result if the rule chose among bids; its weight is its score then."""

    step_id: str
    role: str
    weight: float
    support: float
    bid: Bid | None = None

    @property
    def proto(self) -> plan_pb2.Vote:
        """The part as a message."""
        bid = self.bid.proto if self.bid is not None else None
        return plan_pb2.Vote(step_id=self.step_id, role=self.role, weight=self.weight, support=self.support, bid=bid)

    @classmethod
    def from_proto(cls, message: plan_pb2.Vote) -> Vote:
        """Returns the part that a message has."""
        bid = Bid.from_proto(message.bid) if message.HasField("bid") else None
        return cls(message.step_id, message.role, message.weight, message.support, bid)


@dataclass(frozen=True, slots=True)
class Resolution:
    """A decision by a rule. `winner_step_id` is empty if the rule left it undecided; `reason` says how it was decided,
    or why it was not; `conflict` says which results differ, and is empty if all say the same."""

    rule: str
    winner_step_id: str
    reason: str
    votes: tuple[Vote, ...] = ()
    conflict: str = ""

    @property
    def proto(self) -> plan_pb2.Resolution:
        """The decision as a message."""
        return plan_pb2.Resolution(
            rule=self.rule,
            winner_step_id=self.winner_step_id,
            reason=self.reason,
            votes=[vote.proto for vote in self.votes],
            conflict=self.conflict,
        )

    @classmethod
    def from_proto(cls, message: plan_pb2.Resolution) -> Resolution:
        """Returns the decision that a message has."""
        votes = tuple(map(Vote.from_proto, message.votes))
        return cls(message.rule, message.winner_step_id, message.reason, votes, message.conflict)
