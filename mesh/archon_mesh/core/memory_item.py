"""Items of shared memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from archon.errors import InvalidArgument
from archon.propagation import PropagationPolicy

__all__ = ["MemoryItem", "PropagationPolicy"]


@dataclass(frozen=True, slots=True)
class MemoryItem:
    """The last answer of one role, or of one of its tasks.

    `timestamp` is in seconds since the Unix epoch; `version` counts from 1 per role; `ttl` is in seconds from
    `timestamp`, None for no expiry. `metadata` is copied. `task_id` is the task that gave the answer, empty if it
    comes from no task.

    Raises InvalidArgument if the source is empty, the version is below 1, or the ttl is not positive.
    """

    source_id: str
    content: str
    timestamp: float
    version: int
    policy: PropagationPolicy = PropagationPolicy.FINAL_RESPONSE_ONLY
    metadata: Mapping[str, object] = field(default_factory=dict)
    ttl: float | None = None
    task_id: str = ""

    def __post_init__(self) -> None:
        if not self.source_id:
            raise InvalidArgument("invalid memory item: source_id is empty")
        if self.version < 1:
            raise InvalidArgument(f"invalid memory item: version {self.version} is below 1")
        if self.ttl is not None and not (self.ttl > 0 and math.isfinite(self.ttl)):
            raise InvalidArgument(f"invalid memory item: ttl {self.ttl} is not a positive number of seconds")
        object.__setattr__(self, "metadata", dict(self.metadata))

    def is_expired(self, now: float) -> bool:
        """Tells whether the item has expired at `now`, in seconds since the Unix epoch."""
        return self.ttl is not None and now >= self.timestamp + self.ttl
