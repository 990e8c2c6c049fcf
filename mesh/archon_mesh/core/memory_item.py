"""What a role publishes: one item of shared memory, and how far it may travel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from archon.errors import InvalidArgument


class PropagationPolicy(StrEnum):
    """How much an edge lets through, and what kind of content an item is; each level contains those above."""

    FINAL_RESPONSE_ONLY = "final_response_only"
    TOOL_RESULTS = "tool_results"
    FULL_HISTORY = "full_history"

    def lets_through(self, item: PropagationPolicy) -> bool:
        """Whether an edge of this policy carries an item of policy `item`."""
        return _LEVEL[item] <= _LEVEL[self]


_LEVEL = {policy: level for level, policy in enumerate(PropagationPolicy)}


@dataclass(frozen=True, slots=True)
class MemoryItem:
    """The last answer of one role.

    `timestamp` is in seconds since the Unix epoch; `version` counts from 1 per role; `ttl` is in seconds
    from `timestamp`, None for ever. The metadata is a copy of what was given.

    Raises InvalidArgument for an empty source, a version below 1, or a ttl that is not positive.
    """

    source_id: str
    content: str
    timestamp: float
    version: int
    policy: PropagationPolicy = PropagationPolicy.FINAL_RESPONSE_ONLY
    metadata: Mapping[str, object] = field(default_factory=dict)
    ttl: float | None = None

    def __post_init__(self) -> None:
        if not self.source_id:
            raise InvalidArgument("A memory item needs the role it comes from.")
        if self.version < 1:
            raise InvalidArgument(f"Versions count from 1, not {self.version}.")
        if self.ttl is not None and not (self.ttl > 0 and math.isfinite(self.ttl)):
            raise InvalidArgument(f"A time to live is a positive number of seconds, not {self.ttl}.")
        object.__setattr__(self, "metadata", dict(self.metadata))

    def is_expired(self, now: float) -> bool:
        """Whether its time to live is over at `now`, in seconds since the Unix epoch."""
        return self.ttl is not None and now >= self.timestamp + self.ttl
