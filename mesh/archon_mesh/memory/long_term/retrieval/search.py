"""Answers queries over a store and an embedder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from archon.memory.long_term.entry import DEFAULT_THRESHOLD, FoundEntry, LongTermEntry, Source
from archon_mesh.core.words import content_words
from archon_mesh.memory.long_term.port import NO_FILTERS, Filters, LongTermStore, StoredVector, Vector
from archon_mesh.memory.long_term.retrieval.aspects import aspects
from archon_mesh.memory.long_term.retrieval.fusion import Ranking, fuse
from archon_mesh.memory.long_term.retrieval.similarity import coverage, is_duplicate, query_stems
from archon_mesh.memory.long_term.retrieval.weights import DEFAULT_WEIGHTS, Weights

DEPTH: Final = 30
"""Entries of each ranking that is fused; more if the limit is above a half of it."""

STEP: Final = 0.1
LOWEST: Final = 0.3
"""The default threshold is lowered by STEP while it finds nothing, down to LOWEST."""

UNSCALED: Final = (0.0, 1.0)
"""The range of an embedder that tells none."""

Score = Callable[[LongTermEntry], float]


class VectorSpace(Protocol):
    """The name of an embedder, and the cosines that are the scores 0 and 1."""

    @property
    def name(self) -> str: ...

    @property
    def range(self) -> tuple[float, float] | None: ...


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The results of a query, best first. `threshold` is the one that the entries passed; `source` the step of the
    chain hybrid, keyword, recent that found them."""

    found: tuple[FoundEntry, ...] = ()
    threshold: float = 0.0
    source: Source = Source.HYBRID


class Retriever:
    """Searches by vectors and words. `embedder` is the one of the vectors. If it `knows_meanings`, entries count by the
    scores of their vectors, not by the ranks, so that words decide only between entries with nearly the same score.
    `clock` returns seconds since the Unix epoch."""

    def __init__(
        self,
        store: LongTermStore,
        embedder: VectorSpace,
        clock: Callable[[], float],
        weights: Weights = DEFAULT_WEIGHTS,
        knows_meanings: bool = False,
    ) -> None:
        self._store = store
        self._knows_meanings = knows_meanings
        self._embedder = embedder
        self._clock = clock
        self._weights = weights

    async def search(
        self,
        tenant: str,
        query: str,
        vectors: Sequence[Vector],
        limit: int,
        threshold: float | None = None,
        filters: Filters = NO_FILTERS,
    ) -> Retrieval:
        """Returns at most `limit` entries. `vectors` embed the query's aspects; without any, words alone decide.

        The score of an entry is the larger of its scaled cosine and the part of the query's words that it contains.
        Without a threshold, the default is lowered step by step while nothing reaches it; then follow the best by words
        and the most recent entries, whatever their scores. A threshold that is given is a hard limit. Raises the
        store's errors.
        """
        parts = aspects(query)
        depth = max(DEPTH, 2 * limit)
        rankings, cosines, entries = await self._rankings(tenant, parts, vectors, depth, filters)
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
        self, tenant: str, parts: Sequence[str], vectors: Sequence[Vector], depth: int, filters: Filters
    ) -> tuple[list[list[Ranking]], dict[str, float], dict[str, LongTermEntry]]:
        """Returns the rankings of each part, the best cosine of each entry, and the entries by id."""
        rankings: list[list[Ranking]] = []
        cosines: dict[str, float] = {}
        entries: dict[str, LongTermEntry] = {}
        for number, part in enumerate(parts):
            of_part: list[Ranking] = []
            if vectors:
                query = StoredVector(self._embedder.name, vectors[number])
                nearest = await self._store.nearest(tenant, query, depth, filters)
                for entry, cosine in nearest:
                    cosines[entry.id] = max(cosine, cosines.get(entry.id, -1.0))
                    entries[entry.id] = entry
                scores = [self._scaled(cosine) for _, cosine in nearest] if self._knows_meanings else None
                of_part.append(Ranking([entry.id for entry, _ in nearest], scores))
            by_words = await self._store.with_words(tenant, content_words(part), depth, filters)
            entries.update((entry.id, entry) for entry in by_words)
            of_part.append(Ranking([entry.id for entry in by_words]))
            rankings.append(of_part)
        return rankings, cosines, entries

    def _scorer(self, query: str, cosines: dict[str, float]) -> Score:
        """Returns the function that scores an entry, once: few entries are looked at, and some several times."""
        wanted, scores = query_stems(query), dict[str, float]()

        def score(entry: LongTermEntry) -> float:
            if (known := scores.get(entry.id)) is not None:
                return known
            scaled = self._scaled(cosines.get(entry.id, -1.0))
            scores[entry.id] = result = round(min(1.0, max(scaled, coverage(wanted, entry.content))), 4)
            return result

        return score

    def _scaled(self, cosine: float) -> float:
        """Returns a score of at least 0; above 1 for texts that are more alike than a question and its answer."""
        low, high = self._embedder.range or UNSCALED
        return max(0.0, (cosine - low) / (high - low))

    def _ranked(self, rankings: Sequence[Sequence[Ranking]], entries: dict[str, LongTermEntry]) -> list[LongTermEntry]:
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
