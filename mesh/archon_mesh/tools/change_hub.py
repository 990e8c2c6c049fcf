"""Functions that are called after each change of something."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, ParamSpec

P = ParamSpec("P")


class ChangeHub(Generic[P]):
    """The watchers of one object; any thread may add one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watchers: tuple[Callable[P, None], ...] = ()

    def __len__(self) -> int:
        return len(self._watchers)

    def add(self, watcher: Callable[P, None]) -> Callable[[], None]:
        """Calls `watcher` after each change, in the thread of the change; returns a function that ends that."""
        with self._lock:
            self._watchers = (*self._watchers, watcher)

        def end() -> None:
            with self._lock:
                self._watchers = tuple(each for each in self._watchers if each is not watcher)

        return end

    def tell(self, *change: P.args, **named: P.kwargs) -> None:
        """Calls the watchers with a change."""
        for watcher in self._watchers:
            watcher(*change, **named)
