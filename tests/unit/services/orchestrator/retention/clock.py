"""The clock of the tests of retention."""

from __future__ import annotations


class Clock:
    """A clock that only the test advances, in seconds."""

    def __init__(self) -> None:
        self.time = 1_000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time
