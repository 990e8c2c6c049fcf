"""Fuses rankings.

Source: Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning
Methods", SIGIR 2009.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

K: Final = 10
"""How little the first ranks count for more than the next ones. The paper uses 60 for lists of 1,000; these have 30."""


def fuse(rankings: Iterable[Sequence[str]]) -> dict[str, float]:
    """Returns the sum of 1 / (K + rank) for each id of the rankings."""
    scores: dict[str, float] = {}
    for ids in rankings:
        for rank, entry_id in enumerate(ids, 1):
            scores[entry_id] = scores.get(entry_id, 0.0) + 1 / (K + rank)
    return scores
