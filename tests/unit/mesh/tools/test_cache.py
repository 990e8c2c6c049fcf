"""The cache of results."""

from __future__ import annotations

import pytest

from archon_mesh.tools import cache
from archon_mesh.tools.cache import ResultCache
from tests.fixtures.virtual_time import VirtualTime


def key(name: str) -> cache.CacheKey:
    return ("tool", "1", name)


def test_entry_expires_after_its_time() -> None:
    time = VirtualTime()
    results = ResultCache(time.clock)
    results.put(key("a"), None, 8, 60.0)
    time.now += 59
    assert results.get(key("a")) == (None,)
    time.now += 1
    assert results.get(key("a")) is None
    assert (len(results), results.size) == (0, 0)


def test_kept_content_is_independent_of_its_copies() -> None:
    results = ResultCache(VirtualTime().clock)
    content = {"a": [1]}
    results.put(key("a"), content, 8, 60.0)
    content["a"].append(2)
    first = results.get(key("a"))
    assert first == ({"a": [1]},)
    first[0]["a"].append(3)
    assert results.get(key("a")) == ({"a": [1]},)


def test_least_recently_used_entry_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MAX_ENTRIES", 2)
    results = ResultCache(VirtualTime().clock)
    results.put(key("a"), 1, 8, 60.0)
    results.put(key("b"), 2, 8, 60.0)
    assert results.get(key("a")) == (1,)
    results.put(key("c"), 3, 8, 60.0)
    assert [results.get(key(name)) for name in "abc"] == [(1,), None, (3,)]


def test_cache_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MAX_BYTES", 100)
    results = ResultCache(VirtualTime().clock)
    results.put(key("a"), "x", 60, 60.0)
    results.put(key("b"), "y", 60, 60.0)
    assert (len(results), results.size) == (1, 61)
    results.put(key("b"), "z", 100, 60.0)
    assert (len(results), results.size) == (0, 0), "too large, and the old value is not kept"
