"""Results of idempotent tools, kept for the time that each tool declares."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

MAX_ENTRIES: Final = 1_000
MAX_BYTES: Final = 8 * 1024 * 1024
"""Bytes of the contents and of the arguments that are their keys."""

CacheKey = tuple[object, str, str]
"""The tool, its version, and the arguments as canonical JSON."""


@dataclass(frozen=True, slots=True)
class _Entry:
    content: Any
    expires: float
    size: int


class ResultCache:
    """Keeps contents of results; the least recently used ones make room for others."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: OrderedDict[CacheKey, _Entry] = OrderedDict()
        self.size = 0
        """Bytes in use."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: CacheKey) -> tuple[Any] | None:
        """Returns a copy of the content, in a tuple because it may be None, or None if there is none."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.expires <= self._clock():
            self._remove(key)
            return None
        self._entries.move_to_end(key)
        return (copy.deepcopy(entry.content),)

    def put(self, key: CacheKey, content: Any, size: int, seconds: float) -> None:
        """Keeps a copy of a content of `size` bytes, unless it alone is larger than the cache."""
        size += len(key[2])
        self._remove(key)
        if size > MAX_BYTES:
            return
        while self._entries and (len(self._entries) >= MAX_ENTRIES or self.size + size > MAX_BYTES):
            self._remove(next(iter(self._entries)))
        self._entries[key] = _Entry(copy.deepcopy(content), self._clock() + seconds, size)
        self.size += size

    def _remove(self, key: CacheKey) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.size -= entry.size
