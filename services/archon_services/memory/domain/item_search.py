"""Searches published items by meaning and by words. Items are searched by passage: an answer is often long, and only a
part of it answers a query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import mul
from typing import Final

from archon_mesh.memory.long_term.embedders.offline import OfflineEmbedder, embed_text
from archon_mesh.memory.long_term.retrieval.fusion import Ranking, fuse
from archon_mesh.memory.long_term.retrieval.similarity import coverage, query_stems
from archon_services.memory.domain.items import StoredItem

PASSAGE: Final = 800
"""Characters of a passage, unless a line is longer."""

MAX_PASSAGE: Final = 4_000
"""Characters of a passage in any case."""

MAX_PASSAGES: Final = 1_000
"""Passages of one search; the rest of the items is not searched."""


@dataclass(frozen=True, slots=True)
class FoundItem:
    """The best passage of an item. `score`, from 0 to 1, is its similarity to the query."""

    stored: StoredItem
    passage: str
    score: float


def search_items(items: Sequence[StoredItem], query: str, limit: int, threshold: float) -> list[FoundItem]:
    """Returns the items with the best passages, best first, each once, whose scores reach the threshold.

    Passages are ranked by their cosines with the query (embedder `offline`) and by the part of the query's words that
    they contain; the rankings are fused by rank. Takes up to about half a second of CPU, on the caller's thread.
    """
    found = list(islice(_passages(items), MAX_PASSAGES))
    wanted, vector = query_stems(query), embed_text(query)
    low, high = OfflineEmbedder.range
    cosines = [sum(map(mul, vector, embed_text(text))) for _, text in found]
    covered = [coverage(wanted, text) for _, text in found]
    numbers = range(len(found))
    rankings = [
        Ranking([str(number) for number in sorted(numbers, key=lambda n: -values[n]) if values[number] > 0])
        for values in (cosines, covered)
    ]
    fused = fuse(rankings)
    best: dict[tuple[str, int], FoundItem] = {}
    for number in sorted(map(int, fused), key=lambda n: (-fused[str(n)], n)):
        stored, text = found[number]
        score = round(min(1.0, max(0.0, (cosines[number] - low) / (high - low), covered[number])), 4)
        key = (stored.item.source_id, stored.item.version)
        if score >= threshold and key not in best:
            best[key] = FoundItem(stored, text, score)
        if len(best) == limit:
            break
    return list(best.values())


def _passages(items: Iterable[StoredItem]) -> Iterator[tuple[StoredItem, str]]:
    """Yields passages of the items in turn, so that a long item does not leave the others out."""
    waiting = [(stored, split(stored.item.content)) for stored in items]
    while waiting:
        left = []
        for stored, passages in waiting:
            text = next(passages, None)
            if text is not None:
                yield stored, text
                left.append((stored, passages))
        waiting = left


def split(content: str) -> Iterator[str]:
    """Yields the passages of a text: whole lines, together of about PASSAGE characters."""
    lines: list[str] = []
    size = 0
    for line in content.splitlines():
        for start in range(0, max(1, len(line)), MAX_PASSAGE):
            piece = line[start : start + MAX_PASSAGE]
            ends = not piece.strip() and size > PASSAGE // 2
            if lines and (ends or size + len(piece) > PASSAGE):
                yield "\n".join(lines).strip()
                lines, size = [], 0
            if piece.strip() or lines:
                lines.append(piece)
                size += len(piece) + 1
    if text := "\n".join(lines).strip():
        yield text
