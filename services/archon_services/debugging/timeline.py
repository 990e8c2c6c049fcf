"""The state of a run after each of its events.

A state is folded from the nearest snapshot before it. Snapshots are made as the run is passed, every SNAPSHOT_EVERY
events: a step back folds at most that many events, whatever the length of the run.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Final, cast

from archon.run_view import RunView
from archon.types import RunEvent

SNAPSHOT_EVERY: Final = 1_000
"""Events between two snapshots: folding them takes about 10 ms."""


class Timeline:
    """The states of a run. The state that `at` returned last is folded on if a later one is asked for."""

    def __init__(self, events: Sequence[RunEvent], every: int = SNAPSHOT_EVERY) -> None:
        """`events` have the numbers from 1 on; `every` is the number of events between two snapshots."""
        self._events = events
        self._every = every
        self._view = RunView()
        self._snapshots: dict[int, bytes] = {}
        """Views by the number of their last event. They are bytes of this process: a copy of a view takes longer."""

    @property
    def snapshots(self) -> int:
        """The number of snapshots so far."""
        return len(self._snapshots)

    def at(self, seq: int) -> RunView:
        """Returns the state after event `seq`, which the next call changes. Raises IndexError if there is no such
        event."""
        if not 0 <= seq <= len(self._events):
            raise IndexError(seq)
        if seq < self._view.last_seq or self._nearest(seq) > self._view.last_seq:
            self._view = self._load(self._nearest(seq))
        for event in self._events[self._view.last_seq : seq]:
            self._view.apply(event)
            if event.seq % self._every == 0 and event.seq not in self._snapshots:
                self._snapshots[event.seq] = pickle.dumps(self._view, pickle.HIGHEST_PROTOCOL)
        return self._view

    def _nearest(self, seq: int) -> int:
        """Returns the last event before `seq`, or `seq`, after which there is a snapshot; 0 for the empty state."""
        nearest = seq - seq % self._every
        while nearest and nearest not in self._snapshots:
            nearest -= self._every
        return nearest

    def _load(self, seq: int) -> RunView:
        return cast(RunView, pickle.loads(self._snapshots[seq])) if seq else RunView()
