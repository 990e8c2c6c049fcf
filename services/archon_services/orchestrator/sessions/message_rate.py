"""Bounds the messages that one instance may send per second: each takes a part of the time that all runs share."""

from __future__ import annotations

from typing import Final

PER_SECOND: Final = 150
"""Messages per second of one instance, of all its tasks together, in the long run."""

BURST: Final = 1_000
"""Messages that it may send at once, after it has sent fewer: as many as one run may have."""


class MessageRate:
    """A bucket that holds BURST messages and fills at PER_SECOND. Times are in seconds on any clock."""

    def __init__(self) -> None:
        self._left = float(BURST)
        self._at: float | None = None

    def take(self, now: float) -> None:
        """Takes one message from the bucket; the rest may become negative, which lengthens the wait."""
        self._fill(now)
        self._left -= 1

    def wait(self, now: float) -> float:
        """Returns the seconds until the next message may be read, 0 if it may be read now."""
        self._fill(now)
        return max(0.0, (1 - self._left) / PER_SECOND) if self._left < 1 else 0.0

    def _fill(self, now: float) -> None:
        if self._at is not None and now > self._at:
            self._left = min(float(BURST), self._left + (now - self._at) * PER_SECOND)
        self._at = now
