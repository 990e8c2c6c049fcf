"""The states of runs that have just ended, for callers that ask right after the end."""

from __future__ import annotations

from typing import Final

from archon_mesh.engine import RunState

MAX_ENDED: Final = 256
MAX_ENDED_BYTES: Final = 16 * 1024 * 1024
"""Bytes of the journals of these runs; their states take a small multiple of that."""


class EndedRuns:
    """Keeps the runs that ended last, up to MAX_ENDED and MAX_ENDED_BYTES."""

    __slots__ = ("_bytes", "_runs")

    def __init__(self) -> None:
        self._runs: dict[str, tuple[RunState, int]] = {}
        self._bytes = 0

    def add(self, state: RunState, run_id: str, size: int) -> None:
        """Adds a run whose journal has `size` bytes; those that ended first make room."""
        self._bytes += size - self._runs.pop(run_id, (state, 0))[1]
        self._runs[run_id] = state, size
        while self._bytes > MAX_ENDED_BYTES or len(self._runs) > MAX_ENDED:
            self._bytes -= self._runs.pop(next(iter(self._runs)))[1]

    def get(self, run_id: str) -> RunState | None:
        """Returns the state of a run; None if it is not kept."""
        found = self._runs.get(run_id)
        return found[0] if found is not None else None
