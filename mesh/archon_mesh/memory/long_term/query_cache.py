"""Keeps the results of recent queries until the next write of their tenant."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

from archon_mesh.bounded_cache import BoundedCache
from archon_mesh.memory.long_term.retrieval.search import Retrieval

MAX_ENTRIES: Final = 256
MAX_BYTES: Final = 16 * 1024 * 1024
"""Results that are kept, and the bytes of their texts."""

TTL: Final = 30.0
"""Seconds that a result is kept: other processes write to the same store."""

_OVERHEAD: Final = 500


class QueryCache:
    """Results by tenant and query. The result that was used longest ago is dropped first."""

    def __init__(
        self, clock: Callable[[], float], *, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES
    ) -> None:
        self._results: BoundedCache[tuple[str, Hashable], Retrieval] = BoundedCache(max_entries, max_bytes, clock)
        self.generation = 0
        """The number of writes so far: take it before the search whose result is put."""

    def get(self, tenant: str, query: Hashable) -> Retrieval | None:
        """Returns the result of a query, or None if there is none that is current."""
        return self._results.get((tenant, query))

    def put(self, tenant: str, query: Hashable, result: Retrieval, generation: int) -> None:
        """Keeps a result unless there was a write since `generation`."""
        if generation == self.generation:
            size = _OVERHEAD + sum(_OVERHEAD + len(found.content.encode()) for found in result.found)
            self._results.put((tenant, query), result, size, TTL)

    def invalidate(self, tenant: str) -> None:
        """Drops the results of a tenant."""
        self.generation += 1
        for key in [key for key in self._results if key[0] == tenant]:
            self._results.drop(key)
