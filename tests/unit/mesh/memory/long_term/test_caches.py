"""The caches of queries and of vectors: bounded, and invalidated."""

from __future__ import annotations

from collections.abc import Sequence

from archon.memory.long_term.entry import FoundEntry
from archon_mesh.memory.long_term.embedders import OfflineEmbedder
from archon_mesh.memory.long_term.embedders.cache import CachedEmbedder
from archon_mesh.memory.long_term.port import Vector
from archon_mesh.memory.long_term.query_cache import TTL, QueryCache
from archon_mesh.memory.long_term.retrieval import Retrieval
from tests.fixtures.long_term_entries import entry


def result(text: str) -> Retrieval:
    return Retrieval((FoundEntry(entry(text), 0.9),))


class Counting(OfflineEmbedder):
    """Counts the texts that it embeds."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        self.texts += texts
        return await super().embed(texts)


def test_a_result_is_kept_until_a_write_or_its_time() -> None:
    now = 0.0
    cache = QueryCache(lambda: now)
    cache.put("t", "q", result("x"), cache.generation)
    assert cache.get("t", "q") is not None
    assert cache.get("u", "q") is None
    cache.invalidate("u")
    assert cache.get("t", "q") is not None
    cache.invalidate("t")
    assert cache.get("t", "q") is None
    cache.put("t", "q", result("x"), cache.generation)
    now = TTL
    assert cache.get("t", "q") is None


def test_a_result_from_before_a_write_is_not_kept() -> None:
    cache = QueryCache(lambda: 0.0)
    generation = cache.generation
    cache.invalidate("t")
    cache.put("t", "q", result("x"), generation)
    assert cache.get("t", "q") is None


def test_the_query_cache_is_bounded_in_count_and_bytes() -> None:
    cache = QueryCache(lambda: 0.0, max_entries=2)
    for query in "abc":
        cache.put("t", query, result(query), cache.generation)
        cache.get("t", "a")
    assert [query for query in "abc" if cache.get("t", query)] == ["a", "c"]
    small = QueryCache(lambda: 0.0, max_bytes=5_000)
    small.put("t", "small", result("x"), 0)
    small.put("t", "large", result("x" * 10_000), 0)
    assert small.get("t", "large") is None


async def test_a_text_is_embedded_once() -> None:
    inner = Counting()
    embedder = CachedEmbedder(inner)
    first = await embedder.embed(["a", "b", "a"])
    assert first == await embedder.embed(["a", "b", "a"])
    assert inner.texts == ["a", "b"]


async def test_the_vector_cache_drops_what_was_used_longest_ago() -> None:
    inner = Counting()
    embedder = CachedEmbedder(inner, max_entries=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        await embedder.embed([text])
    assert inner.texts == ["a", "b", "c", "b"]
    tiny = CachedEmbedder(Counting(), max_bytes=1)
    assert len(await tiny.embed(["a", "b"])) == 2
