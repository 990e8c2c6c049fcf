"""Results of idempotent tools, kept for the time that each tool declares."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

from archon_mesh.bounded_cache import BoundedCache

MAX_ENTRIES: Final = 1_000
MAX_BYTES: Final = 8 * 1024 * 1024
"""Bytes of the contents and of the arguments that are their keys."""

CacheKey = tuple[object, str, str]
"""The tool, its version, and the arguments as canonical JSON."""


class ResultCache:
    """Keeps contents of results; the least recently used ones make room for others."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._contents: BoundedCache[CacheKey, tuple[Any]] = BoundedCache(MAX_ENTRIES, MAX_BYTES, clock)

    def __len__(self) -> int:
        return len(self._contents)

    @property
    def size(self) -> int:
        """Bytes in use."""
        return self._contents.size

    def get(self, key: CacheKey) -> tuple[Any] | None:
        """Returns a copy of the content, in a tuple because it may be None, or None if there is none."""
        kept = self._contents.get(key)
        return None if kept is None else (copy.deepcopy(kept[0]),)

    def put(self, key: CacheKey, content: Any, size: int, seconds: float) -> None:
        """Keeps a copy of a content of `size` bytes, unless it alone is larger than the cache."""
        self._contents.put(key, (copy.deepcopy(content),), size + len(key[2]), seconds)
