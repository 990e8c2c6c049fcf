"""Answers queries over a store and an embedder."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from archon.errors import ArchonError
from archon.memory.long_term.entry import DEFAULT_THRESHOLD, FoundEntry, LongTermEntry, Source
from archon_mesh.core.words import content_words
from archon_mesh.memory.long_term.port import NO_FILTERS, Filters, LongTermStore, StoredVector, Vector
from archon_mesh.memory.long_term.retrieval.aspects import aspects
from archon_mesh.memory.long_term.retrieval.fusion import fuse
from archon_mesh.memory.long_term.retrieval.similarity import coverage, is_duplicate, query_stems
from archon_mesh.memory.long_term.retrieval.weights import DEFAULT_WEIGHTS, Weights

_log = logging.getLogger(__name__)

DEPTH: Final = 30
"""Entries of each ranking that is fused; more if the limit is above a half of it."""

STEP: Final = 0.1
LOWEST: Final = 0.3
"""The default threshold is lowered by STEP while it finds nothing, down to LOWEST."""

Embed = Callable[[Sequence[str]], Awaitable[list[Vector]]]
Score = Callable[[LongTermEntry], float]


@dataclass(frozen=True, slots=True)
class Retrieval:
    """What a query found, best first. `threshold` is the one that the entries passed; `source` the step of the chain
    hybrid, keyword, recent that found them."""

    found: tuple[FoundEntry, ...] = ()
    threshold: float = 0.0
    source: Source = Source.HYBRID


class Retriever:
    """Searches by vectors and words. `embed` embeds texts with the embedder of this name; the cosines of `cosine_range`
    are the scores 0 and 1. `clock` returns seconds since the Unix epoch."""

    def __init__(
        self,
        store: LongTermStore,
        embed: Embed,
        embedder: str,
        cosine_range: tuple[float, float],
        clock: Callable[[], float],
        weights: Weights = DEFAULT_WEIGHTS,
    ) -> None:
        self._store = store
        self._embed = embed
        self._embedder = embedder
        self._low, self._high = cosine_range
        self._clock = clock
        self._weights = weights

    async def search(
        self, tenant: str, query: str, limit: int, threshold: float | None = None, filters: Filters = NO_FILTERS
    ) -> Retrieval:
        """Returns at most `limit` entries.

        The score of an entry is the larger of its scaled cosine and the part of the query's words that it contains.
        Without a threshold, the default is lowered step by step while nothing reaches it; then follow the best by words
        and the most recent entries, whatever their scores. A threshold that is given is a hard limit. If the embedder
        fails, words alone decide. Raises what the store raises.
        """
        parts = aspects(query)
        depth = max(DEPTH, 2 * limit)
        rankings, cosines, entries = await self._rankings(tenant, parts, depth, filters)
        source = Source.HYBRID if cosines else Source.KEYWORD
        score = self._scorer(query, cosines)
        ranked = self._ranked(rankings, entries)
        if threshold is not None:
            return self._result(ranked, score, threshold, limit, source)
        lowered = DEFAULT_THRESHOLD
        while lowered >= LOWEST - 1e-9:
            result = self._result(ranked, score, round(lowered, 2), limit, source)
            if result.found:
                return result
            lowered -= STEP
        by_words = await self._store.with_words(tenant, content_words(query), limit, filters)
        if by_words:
            return self._result(by_words, score, 0.0, limit, Source.KEYWORD)
        recent = await self._store.recent(tenant, limit, filters)
        return self._result(recent, lambda _: 0.0, 0.0, limit, Source.RECENT)

    async def _rankings(
        self, tenant: str, parts: Sequence[str], depth: int, filters: Filters
    ) -> tuple[list[list[list[str]]], dict[str, float], dict[str, LongTermEntry]]:
        """Returns the rankings of each part, the best cosine of each entry, and the entries by id."""
        rankings: list[list[list[str]]] = []
        cosines: dict[str, float] = {}
        entries: dict[str, LongTermEntry] = {}
        vectors = await self._vectors(parts)
        for number, part in enumerate(parts):
            of_part: list[list[str]] = []
            if vectors:
                query = StoredVector(self._embedder, vectors[number])
                nearest = await self._store.nearest(tenant, query, depth, filters)
                for entry, cosine in nearest:
                    cosines[entry.id] = max(cosine, cosines.get(entry.id, -1.0))
                    entries[entry.id] = entry
                of_part.append([entry.id for entry, _ in nearest])
            by_words = await self._store.with_words(tenant, content_words(part), depth, filters)
            entries.update((entry.id, entry) for entry in by_words)
            of_part.append([entry.id for entry in by_words])
            rankings.append(of_part)
        return rankings, cosines, entries

    async def _vectors(self, parts: Sequence[str]) -> list[Vector]:
        try:
            return await self._embed(parts)
        except ArchonError as error:
            _log.warning("the query is searched by words only: %s", error)
            return []

    def _scorer(self, query: str, cosines: dict[str, float]) -> Score:
        """Returns the function that scores an entry, once: few entries are looked at, and some several times."""
        wanted, scores = query_stems(query), dict[str, float]()

        def score(entry: LongTermEntry) -> float:
            if (known := scores.get(entry.id)) is not None:
                return known
            scaled = (cosines.get(entry.id, -1.0) - self._low) / (self._high - self._low)
            scores[entry.id] = result = round(min(1.0, max(0.0, scaled, coverage(wanted, entry.content))), 4)
            return result

        return score

    def _ranked(
        self, rankings: Sequence[Sequence[Sequence[str]]], entries: dict[str, LongTermEntry]
    ) -> list[LongTermEntry]:
        """Returns the entries in the order of all rankings; the best of each part of the query comes to the front."""
        factors = {entry_id: self._weights.factor(entry, self._clock()) for entry_id, entry in entries.items()}

        def order(fused: dict[str, float]) -> list[str]:
            return sorted(fused, key=lambda entry_id: (-fused[entry_id] * factors[entry_id], entry_id))

        every = order(fuse(ranking for of_part in rankings for ranking in of_part))
        first = [ids[0] for of_part in rankings[1:] if (ids := order(fuse(of_part)))]
        return [entries[entry_id] for entry_id in dict.fromkeys([*every[:1], *first, *every])]

    def _result(
        self,
        ranked: Iterable[LongTermEntry],
        score_of: Score,
        threshold: float,
        limit: int,
        source: Source,
    ) -> Retrieval:
        found: list[FoundEntry] = []
        for entry in ranked:
            score = score_of(entry)
            if score < threshold or any(is_duplicate(entry.content, other.content) for other in found):
                continue
            found.append(FoundEntry(entry, score, source))
            if len(found) == limit:
                break
        return Retrieval(tuple(found), threshold, source)
