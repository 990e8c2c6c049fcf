"""Bytes of frames that agents have sent and that are not durable yet. They are bounded for each session and for the
process: above a bound the session's stream is not read, so that the agent has to wait."""

from __future__ import annotations

from typing import Final

MAX_SESSION_BYTES: Final = 64 * 1024 * 1024
MAX_PROCESS_BYTES: Final = 256 * 1024 * 1024
"""Above half of it, each session that holds bytes may hold an equal share of the other half."""

FRAME_OVERHEAD: Final = 1_024
"""The minimum size that a frame counts: the objects that it becomes take more memory than a small frame."""


class ProcessBytes:
    """The bytes of all sessions of a process."""

    def __init__(self, limit: int = MAX_PROCESS_BYTES) -> None:
        self.used = 0
        self.holders = 0
        """Sessions that hold bytes."""

        self.half = limit // 2


class InFlight:
    """The bytes of one session."""

    __slots__ = ("_closed", "_limit", "_process", "used")

    def __init__(self, process: ProcessBytes, limit: int = MAX_SESSION_BYTES) -> None:
        self.used = 0
        self._process = process
        self._limit = limit
        self._closed = False

    @property
    def full(self) -> bool:
        """Whether the session's stream is not to be read for now."""
        process = self._process
        return self.used > self._limit or (process.used > process.half and self.used * process.holders > process.half)

    def add(self, size: int) -> None:
        """Counts the bytes of a frame that has arrived."""
        if self._closed:
            return
        if not self.used:
            self._process.holders += 1
        self.used += size
        self._process.used += size

    def release(self, size: int) -> None:
        """Releases the bytes of frames that have become durable, or were dropped."""
        size = min(size, self.used)
        if not size:
            return
        self.used -= size
        process = self._process
        process.used -= size
        if not self.used:
            process.holders -= 1

    def close(self) -> None:
        """The session has ended: its bytes count no longer."""
        self.release(self.used)
        self._closed = True
