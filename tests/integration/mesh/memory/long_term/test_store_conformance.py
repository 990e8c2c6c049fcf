"""What every store of long-term memory does."""

from __future__ import annotations

import dataclasses

import pytest

from archon.errors import InvalidArgument
from archon.memory.long_term.entry import EmbeddingState, LongTermStats
from archon_mesh.memory.long_term.port import Change, Filters, LongTermStore, StoredVector
from tests.fixtures.long_term_entries import entry, offline, unit

T = "tenant/1"


async def stored(store: LongTermStore, *texts: str, tenant: str = T, **metadata: str) -> list[str]:
    """Stores texts with their offline vectors and ascending times; returns their ids."""
    entries = [entry(text, 1_000.0 + number, **metadata) for number, text in enumerate(texts)]
    assert await store.insert(tenant, entries, [offline(text) for text in texts]) == len(texts)
    return [each.id for each in entries]


async def test_an_entry_is_returned_as_it_was_stored(store: LongTermStore) -> None:
    written = entry(
        "Tea, not coffee: caf\u00e9s \u2615",
        1_234.5,
        user="ana",
        role="user",
        importance=0.9,
        use_count=3,
        last_used=2_000.0,
    )
    assert await store.insert(T, [written], [offline(written.content)]) == 1
    (read,) = await store.get(T, [written.id, entry("unknown").id])
    assert read == dataclasses.replace(written, embedder="offline/1")
    assert read.embedding is EmbeddingState.EMBEDDED


async def test_an_id_that_exists_is_left_as_it_is(store: LongTermStore) -> None:
    first = entry("the first text", user="ana")
    again = entry("another text", 5_000.0, first.id, user="ben")
    new = entry("a new text")
    assert await store.insert(T, [first], [None]) == 1
    assert await store.insert(T, [again, new], [None, None]) == 1
    assert [each.content for each in await store.get(T, [first.id])] == ["the first text"]
    assert (await store.stats(T)).active == 2


async def test_no_call_sees_entries_of_another_tenant(store: LongTermStore) -> None:
    (secret,) = await stored(store, "the alarm code is 4711", tenant="acme", user="ana")
    await stored(store, "the weather is fine", tenant="other", user="ana")
    assert await store.get("other", [secret]) == []
    found = await store.nearest("other", offline("alarm code"), 10)
    assert [each.content for each, _ in found] == ["the weather is fine"]
    assert await store.with_words("other", ["alarm"], 10) == []
    assert [each.content for each in await store.recent("other", 10)] == ["the weather is fine"]
    assert [each.content for each in await store.page("other", "", 10)] == ["the weather is fine"]
    assert await store.change("other", [Change(secret, uses=1)]) == 0
    assert await store.delete("other", [secret]) == 0
    assert await store.forget("other", {"user": "ana"}) == 1
    assert [each.use_count for each in await store.get("acme", [secret])] == [0]
    assert await store.recent("never seen", 10) == []


async def test_nearest_returns_cosines_nearest_first(store: LongTermStore) -> None:
    entries = [entry("east"), entry("north"), entry("north east")]
    await store.insert(T, entries, [unit(1, 0), unit(0, 1), unit(0.6, 0.8)])
    found = await store.nearest(T, unit(1, 0), 2)
    assert [(each.content, round(cosine, 4)) for each, cosine in found] == [("east", 1.0), ("north east", 0.6)]


async def test_vectors_of_other_embedders_are_not_compared(store: LongTermStore) -> None:
    one, other = entry("one"), entry("other")
    await store.insert(T, [one, other], [unit(1, 0), unit(1, 0, 0, embedder="test/3")])
    assert [each.content for each, _ in await store.nearest(T, unit(1, 0), 5)] == ["one"]
    assert [each.content for each, _ in await store.nearest(T, unit(1, 0, 0, embedder="test/3"), 5)] == ["other"]
    assert await store.nearest(T, unit(1, embedder="unknown"), 5) == []
    await store.embed(T, {other.id: unit(0, 1)})
    found = await store.nearest(T, unit(0, 1), 5)
    assert [each.content for each, _ in found] == ["other", "one"]
    assert await store.nearest(T, unit(1, 0, 0, embedder="test/3"), 5) == []


async def test_words_are_found_and_ranked_by_bm25(store: LongTermStore) -> None:
    await stored(
        store,
        "The train to Porto leaves from platform three of the main station in the morning",
        "A train, a train, a train",
        "Ana likes fish",
    )
    found = [each.content for each in await store.with_words(T, ["train"], 10)]
    assert found == [
        "A train, a train, a train",
        "The train to Porto leaves from platform three of the main station in the morning",
    ]
    assert [each.content for each in await store.with_words(T, ["fish", "unheard"], 10)] == ["Ana likes fish"]
    assert await store.with_words(T, ['"quoted" OR *', "("], 10) == []
    assert await store.with_words(T, [], 10) == []
    assert len(await store.with_words(T, ["train", "fish"], 2)) == 2


async def test_an_entry_without_a_vector_is_found_by_words(store: LongTermStore) -> None:
    pending = entry("Rui plays chess")
    await store.insert(T, [pending], [None])
    assert await store.nearest(T, offline("chess"), 5) == []
    (found,) = await store.with_words(T, ["chess"], 5)
    assert found.embedding is EmbeddingState.PENDING
    assert [(tenant, each.id) for tenant, each in await store.unembedded("offline/1", 5)] == [(T, pending.id)]
    await store.embed(T, {pending.id: offline("Rui plays chess"), entry("unknown").id: offline("unknown")})
    assert await store.unembedded("offline/1", 5) == []
    assert [each.id for each, _ in await store.nearest(T, offline("chess"), 5)] == [pending.id]
    assert len(await store.unembedded("offline/2", 5)) == 1


async def test_filters_need_every_pair(store: LongTermStore) -> None:
    await stored(store, "red wine", user="ana", role="user")
    await stored(store, "red car", user="ben", role="user")
    await stored(store, "red hat", user="ana", role="assistant")
    filters = Filters({"user": "ana", "role": "user"})
    assert [each.content for each in await store.with_words(T, ["red"], 5, filters)] == ["red wine"]
    assert [each.content for each, _ in await store.nearest(T, offline("red"), 5, filters)] == ["red wine"]
    assert [each.content for each in await store.recent(T, 5, filters)] == ["red wine"]
    assert await store.recent(T, 5, Filters({"user": "nemo"})) == []
    assert await store.recent(T, 5, Filters({"unknown": "ana"})) == []


async def test_recent_is_newest_first(store: LongTermStore) -> None:
    await stored(store, "first", "second", "third")
    assert [each.content for each in await store.recent(T, 2)] == ["third", "second"]


async def test_archived_entries_are_found_only_on_request(store: LongTermStore) -> None:
    ids = await stored(store, "old news", "new news")
    assert await store.change(T, [Change(ids[0], archived=True)]) == 1
    assert [each.content for each in await store.with_words(T, ["news"], 5)] == ["new news"]
    assert [each.content for each, _ in await store.nearest(T, offline("old news"), 5)] == ["new news"]
    assert [each.content for each in await store.recent(T, 5)] == ["new news"]
    every = Filters(with_archived=True)
    assert {each.content for each in await store.with_words(T, ["news"], 5, every)} == {"old news", "new news"}
    assert [each.content for each in await store.least_valuable(T, 5, archived=True)] == ["old news"]
    assert await store.unembedded("offline/1", 5) == []
    await store.embed(T, {ids[0]: offline("old news")})
    assert [each.content for each, _ in await store.nearest(T, offline("old news"), 5)] == ["new news"]
    await store.change(T, [Change(ids[0], archived=False)])
    assert [each.id for _, each in await store.unembedded("offline/1", 5)] == [ids[0]]


async def test_changes_add_up(store: LongTermStore) -> None:
    (known,) = await stored(store, "a fact")
    assert await store.change(T, [Change(known, uses=2, used_at=50.0, useful=1), Change(entry("x").id, uses=1)]) == 1
    await store.change(T, [Change(known, uses=1, used_at=40.0, not_useful=2, importance=0.25)])
    (read,) = await store.get(T, [known])
    assert (read.use_count, read.last_used, read.useful, read.not_useful, read.importance) == (3, 50.0, 1, 2, 0.25)


async def test_the_least_valuable_were_used_longest_ago(store: LongTermStore) -> None:
    ids = await stored(store, "first", "second", "third")
    await store.change(T, [Change(ids[0], uses=1, used_at=9_000.0)])
    assert [each.content for each in await store.least_valuable(T, 2, archived=False)] == ["second", "third"]


async def test_pages_have_every_entry_once_in_order(store: LongTermStore) -> None:
    ids = await stored(store, *(f"number {number}" for number in range(7)))
    await store.change(T, [Change(ids[3], archived=True)])
    seen: list[str] = []
    while page := await store.page(T, seen[-1] if seen else "", 3):
        assert len(page) <= 3
        seen += [each.id for each in page]
    assert seen == sorted(ids)


async def test_deleted_entries_are_found_nowhere(store: LongTermStore) -> None:
    ids = await stored(store, "to be deleted", "to be kept")
    assert await store.delete(T, [ids[0], entry("unknown").id]) == 1
    assert await store.delete(T, [ids[0]]) == 0
    assert await store.delete(T, []) == 0
    assert [each.content for each in await store.with_words(T, ["deleted", "kept"], 5)] == ["to be kept"]
    assert [each.content for each, _ in await store.nearest(T, offline("to be deleted"), 5)] == ["to be kept"]
    assert await store.stats(T) == LongTermStats(active=1, bytes=len("to be kept"))


async def test_forget_deletes_by_metadata_archived_too(store: LongTermStore) -> None:
    ids = await stored(store, "ana one", "ana two", user="ana", session="s1")
    await stored(store, "ana three", user="ana", session="s2")
    await stored(store, "ben", user="ben", session="s1")
    await store.change(T, [Change(ids[0], archived=True)])
    assert await store.forget(T, {"user": "ana", "session": "s1"}) == 2
    assert {each.content for each in await store.recent(T, 5, Filters(with_archived=True))} == {"ana three", "ben"}
    assert await store.forget(T, {"user": "ana"}) == 1
    assert await store.forget(T, {"user": "ana"}) == 0
    with pytest.raises(InvalidArgument):
        await store.forget(T, {})


async def test_a_damaged_entry_is_set_aside_and_listed(store: LongTermStore) -> None:
    sound, broken = entry("a sound text"), dataclasses.replace(entry("a broken text"), checksum="0" * 64)
    await store.insert(T, [sound, broken], [offline("a sound text"), offline("a broken text")])
    for _ in range(2):
        assert [each.content for each in await store.with_words(T, ["text"], 5)] == ["a sound text"]
        assert [each.content for each, _ in await store.nearest(T, offline("text"), 5)] == ["a sound text"]
    assert await store.damaged(T) == [broken.id]
    assert await store.get(T, [broken.id]) == []
    assert [each.id for each in await store.page(T, "", 5)] == [sound.id]
    assert (await store.stats(T)).damaged == 1
    assert await store.delete(T, [broken.id]) == 1
    assert await store.damaged(T) == []


async def test_stats_count_each_state(store: LongTermStore) -> None:
    ids = await stored(store, "12345", "1234567890")
    await store.insert(T, [entry("pending")], [None])
    await store.change(T, [Change(ids[0], archived=True)])
    assert await store.stats(T) == LongTermStats(active=2, archived=1, pending=1, bytes=22)
    assert await store.stats("never seen") == LongTermStats()


async def test_tenants_are_those_with_entries(store: LongTermStore) -> None:
    assert await store.tenants() == []
    await stored(store, "x", tenant="b/\u00e9")
    await stored(store, "x", tenant="a")
    assert await store.tenants() == ["a", "b/\u00e9"]


async def test_a_batch_is_stored_whole(store: LongTermStore) -> None:
    entries = [entry(f"entry number {number} of many", float(number)) for number in range(500)]
    vectors: list[StoredVector | None] = [unit(1, 0) for _ in entries]
    assert await store.insert(T, entries, vectors) == 500
    assert (await store.stats(T)).active == 500
    assert len(await store.get(T, [each.id for each in entries])) == 500
