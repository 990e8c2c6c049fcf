"""Keeps the results of recent queries until the next write of their tenant."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from archon_mesh.memory.long_term.retrieval.search import Retrieval

MAX_ENTRIES: Final = 256
MAX_BYTES: Final = 16 * 1024 * 1024
"""Results that are kept, and the bytes of their texts."""

TTL: Final = 30.0
"""Seconds that a result is kept: other processes write to the same store."""

_OVERHEAD: Final = 500


@dataclass(frozen=True, slots=True)
class _Kept:
    result: Retrieval
    until: float
    size: int


class QueryCache:
    """Results by tenant and query. The result that was used longest ago is dropped first."""

    def __init__(
        self, clock: Callable[[], float], *, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES
    ) -> None:
        self._clock = clock
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._results: OrderedDict[tuple[str, Hashable], _Kept] = OrderedDict()
        self.generation = 0
        """The number of writes so far: take it before the search whose result is put."""
        self._bytes = 0

    def get(self, tenant: str, query: Hashable) -> Retrieval | None:
        """Returns the result of a query, or None if there is none that is current."""
        kept = self._results.get((tenant, query))
        if kept is None:
            return None
        if kept.until <= self._clock():
            self._drop((tenant, query))
            return None
        self._results.move_to_end((tenant, query))
        return kept.result

    def put(self, tenant: str, query: Hashable, result: Retrieval, generation: int) -> None:
        """Keeps a result unless there was a write since `generation`."""
        if generation != self.generation:
            return
        self._drop((tenant, query))
        size = _OVERHEAD + sum(_OVERHEAD + len(found.content.encode()) for found in result.found)
        self._results[tenant, query] = _Kept(result, self._clock() + TTL, size)
        self._bytes += size
        while self._results and (len(self._results) > self._max_entries or self._bytes > self._max_bytes):
            self._drop(next(iter(self._results)))

    def invalidate(self, tenant: str) -> None:
        """Drops the results of a tenant."""
        self.generation += 1
        for key in [key for key in self._results if key[0] == tenant]:
            self._drop(key)

    def _drop(self, key: tuple[str, Hashable]) -> None:
        kept = self._results.pop(key, None)
        if kept is not None:
            self._bytes -= kept.size
