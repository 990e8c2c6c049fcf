"""Counts queries of long-term memory by their results."""

from __future__ import annotations

from typing import Final

from archon.telemetry import metrics
from archon_mesh.memory.long_term.retrieval.search import Retrieval

_HIT: Final = "hit"
_FALLBACK: Final = "fallback"
_EMPTY: Final = "empty"
_FAILED: Final = "failed"


def begin() -> None:
    """Exports the counters from now on: Prometheus sees no increase in a series that begins with 1."""
    if (recorder := metrics.recorder()) is not None:
        recorder.add(metrics.MEMORY_HITS, (), 0)
        for outcome in (_HIT, _FALLBACK, _EMPTY, _FAILED):
            recorder.add(metrics.MEMORY_QUERIES, (outcome,), 0)


def done(result: Retrieval, *, has_threshold: bool) -> None:
    """Counts a query, whether it was answered from the cache or not."""
    if (recorder := metrics.recorder()) is None:
        return
    # Without a threshold that was given, entries of the last steps of the chain are there whatever their scores.
    is_hit = has_threshold or result.threshold > 0
    outcome = _EMPTY if not result.found else _HIT if is_hit else _FALLBACK
    recorder.add(metrics.MEMORY_QUERIES, (outcome,))
    if outcome == _HIT:
        recorder.add(metrics.MEMORY_HITS, (), len(result.found))


def failed() -> None:
    """Counts a query that the store did not answer."""
    if (recorder := metrics.recorder()) is not None:
        recorder.add(metrics.MEMORY_QUERIES, (_FAILED,))
