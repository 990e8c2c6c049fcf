"""Fuses rankings.

Source: Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning
Methods", SIGIR 2009.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

K: Final = 10
"""How little the first ranks count for more than the next ones. The paper uses 60 for lists of 1,000; these have 30."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Ids, the best first. `scores`, of at least 0, tell how good each is; without them, ranks do."""

    ids: Sequence[str]
    scores: Sequence[float] | None = None


def fuse(rankings: Iterable[Ranking]) -> dict[str, float]:
    """Returns the sum of the scores of each id of the rankings, or of 1 / (K + rank)."""
    sums: dict[str, float] = {}
    for ranking in rankings:
        scores = ranking.scores or [1 / (K + rank) for rank in range(1, len(ranking.ids) + 1)]
        for entry_id, score in zip(ranking.ids, scores, strict=True):
            sums[entry_id] = sums.get(entry_id, 0.0) + score
    return sums
