"""How much age, importance and feedback count beside the rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from archon.errors import InvalidArgument
from archon.memory.long_term.entry import LongTermEntry

_DAY: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Weights:
    """The part of a rank that each property may take away: 0 ignores the property, 1 lets it decide.

    `half_life` is in seconds: the age at which recency has half its value. Raises InvalidArgument for other numbers.
    """

    recency: float = 0.1
    importance: float = 0.2
    feedback: float = 0.3
    half_life: float = 90 * _DAY

    def __post_init__(self) -> None:
        if not all(0 <= weight <= 1 for weight in (self.recency, self.importance, self.feedback)):
            raise InvalidArgument("the weights of recency, importance and feedback must be from 0 to 1")
        if not self.half_life > 0:
            raise InvalidArgument("half_life must be above 0 seconds")

    def factor(self, entry: LongTermEntry, now: float) -> float:
        """Returns the factor of an entry's rank, from 0 to 1."""
        recency: float = 0.5 ** (max(0.0, now - entry.create_time) / self.half_life)
        # The mean of a Beta(1, 1) prior with these votes: 0.5 without feedback.
        feedback = (entry.useful + 1) / (entry.useful + entry.not_useful + 2)
        return (
            (1 - self.recency * (1 - recency))
            * (1 - self.importance * (1 - entry.importance))
            * (1 - self.feedback * (1 - feedback))
        )


DEFAULT_WEIGHTS: Final = Weights()
