"""Bids for steps of a plan."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass

from archon.api.common.v1 import plan_pb2
from archon.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Bid:
    """A bidder's estimate for a step: the cost in millionths of a US dollar, the time in seconds, and the quality of
    the result by the bidder's own measure, from 0 to 1. 0 is unknown, and counts less than the worst bid.

    Raises InvalidArgument for a number that is out of range.
    """

    cost_micro_usd: int = 0
    seconds: float = 0.0
    quality: float = 0.0

    def __post_init__(self) -> None:
        if not (0 <= self.cost_micro_usd <= 1e15 and self.cost_micro_usd == int(self.cost_micro_usd)):
            raise InvalidArgument(f"the cost of a bid is a whole number of micro-dollars, not {self.cost_micro_usd!r}")
        if not (0 <= self.seconds < math.inf):
            raise InvalidArgument(f"the time of a bid is 0 s or more, not {self.seconds!r}")
        if not 0 <= self.quality <= 1:
            raise InvalidArgument(f"the quality of a bid is from 0 to 1, not {self.quality!r}")

    @property
    def proto(self) -> plan_pb2.Bid:
        """The bid as a message."""
        return plan_pb2.Bid(cost_micro_usd=int(self.cost_micro_usd), seconds=self.seconds, quality=self.quality)

    @classmethod
    def from_proto(cls, message: plan_pb2.Bid) -> Bid:
        """Returns the bid that a message has."""
        return cls(message.cost_micro_usd, message.seconds, message.quality)

    @property
    def text(self) -> str:
        """The bid as one JSON object: the result of a task that was asked for it."""
        return json.dumps(asdict(self))
