"""The limits that an orchestrator sets with Open, kept within the bounds of the agent."""

from __future__ import annotations

import time
from typing import Final

from archon.api.agent.v1 import session_pb2
from archon.wire import to_seconds

DEFAULT_PARK_TTL: Final = 25 * 3600.0
"""Seconds, if Open sets no other value: longer than any run."""

MAX_PARK_TTL: Final = 7 * 86_400.0
DEFAULT_SILENCE_LIMIT: Final = 2.0
MAX_SILENCE_LIMIT: Final = 60.0
"""Seconds: an orchestrator is believed to be gone after five silence limits."""

LOWERED_GRACE: Final = 2.0
"""Seconds after a lower credit in which tasks still count against the earlier one: they may have been on their way."""


def park_ttl(request: session_pb2.Open) -> float:
    """Seconds for which results are parked: 0 to MAX_PARK_TTL."""
    if not request.HasField("park_ttl"):
        return DEFAULT_PARK_TTL
    return min(MAX_PARK_TTL, max(0.0, to_seconds(request.park_ttl)))


def silence_limit(request: session_pb2.Open) -> float:
    """Seconds without a frame: 0 to MAX_SILENCE_LIMIT."""
    if not request.HasField("silence_limit"):
        return DEFAULT_SILENCE_LIMIT
    return min(MAX_SILENCE_LIMIT, max(0.0, to_seconds(request.silence_limit)))


class ShareWindow:
    """The number of tasks that a session may have in flight beside other sessions."""

    def __init__(self) -> None:
        self._share = self._earlier = 0
        self._lowered_at = float("-inf")

    def set(self, share: int) -> None:
        """Sets the session's share of the capacity."""
        if share < self._share:
            self._earlier, self._lowered_at = self.allowed, time.monotonic()
        self._share = share

    @property
    def allowed(self) -> int:
        """The share, or the earlier one if it was lowered a moment ago."""
        lately = time.monotonic() - self._lowered_at < LOWERED_GRACE
        return max(self._share, self._earlier) if lately else self._share
