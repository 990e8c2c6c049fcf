"""The bounded cache."""

from __future__ import annotations

from math import inf

from archon_mesh.bounded_cache import BoundedCache


def test_the_value_used_longest_ago_makes_room() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert [cache.get(key) for key in "abc"] == [1, None, 3]
    assert list(cache) == ["a", "c"]


def test_a_look_without_get_uses_nothing() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert "a" in cache
    cache.put("c", 3)
    assert "a" not in cache


def test_values_are_bounded_in_bytes() -> None:
    cache: BoundedCache[str, int] = BoundedCache(max_bytes=100)
    for key in "abcd":
        cache.put(key, 1, 40)
    assert (list(cache), cache.size, len(cache)) == (["c", "d"], 80, 2)
    cache.put("c", 2, 60)
    assert (cache.get("c"), cache.get("d"), cache.size) == (2, 1, 100)


def test_a_value_larger_than_the_cache_keeps_neither_itself_nor_the_old_one() -> None:
    cache: BoundedCache[str, int] = BoundedCache(max_bytes=100)
    cache.put("a", 1, 40)
    cache.put("b", 1, 40)
    cache.put("a", 2, 101)
    assert (list(cache), cache.size) == (["b"], 40), "and the others stay"


def test_a_value_expires_after_its_time() -> None:
    now = 0.0
    cache: BoundedCache[str, int] = BoundedCache(max_bytes=100, clock=lambda: now)
    cache.put("a", 1, 40, 60.0)
    cache.put("b", 2, 40, inf)
    now = 59.0
    assert cache.get("a") == 1
    now = 60.0
    assert (cache.get("a"), cache.size) == (None, 40)
    now = 1e12
    assert cache.get("b") == 2


def test_a_dropped_value_frees_its_bytes() -> None:
    cache: BoundedCache[str, int] = BoundedCache(max_bytes=100)
    cache.put("a", 1, 100)
    cache.drop("a")
    cache.drop("never there")
    assert (len(cache), cache.size) == (0, 0)
