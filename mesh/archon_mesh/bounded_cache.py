"""A cache that is bounded in entries and in bytes, and whose values may expire."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from math import inf
from typing import Generic, TypeVar

from archon.clock import monotonic

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Values by key. The value that was used longest ago makes room for others; one that alone is larger than
    `max_bytes` is not kept. Threads must not use it at the same time."""

    def __init__(
        self,
        max_entries: int = sys.maxsize,
        max_bytes: float = inf,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._clock = clock
        self._entries: OrderedDict[K, tuple[V, int, float]] = OrderedDict()
        self.size = 0
        """Bytes in use, as far as `put` was told."""

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Returns the value, and notes that it was used; None if there is none, or if it has expired."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry[2] <= self._clock():
            self.drop(key)
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: K, value: V, size: int = 0, seconds: float = inf) -> None:
        """Keeps a value of `size` bytes for `seconds`, in place of the one that the key had."""
        self.drop(key)
        if size > self._max_bytes:
            return
        self._entries[key] = value, size, self._clock() + seconds
        self.size += size
        while len(self._entries) > self._max_entries or self.size > self._max_bytes:
            self.size -= self._entries.popitem(last=False)[1][1]

    def drop(self, key: K) -> None:
        """Removes a value, if there is one."""
        if (entry := self._entries.pop(key, None)) is not None:
            self.size -= entry[1]
