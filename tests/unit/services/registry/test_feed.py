"""What watchers are told: each change once, resumable, bounded."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from archon.api.common.v1.common_pb2 import Edge
from archon.api.registry.v1.registry_pb2 import Registration
from archon.errors import ResourceExhausted, Unavailable
from archon_services.registry.domain.state import Change, State
from archon_services.registry.store.feed import Feed


def update(number: int) -> dict[str, Registration | Edge | None]:
    return {f"instances/i{number}": Registration(instance_id=f"i{number}", role="r")}


def feed(changes: int, *, history: int = 10, queue: int = 5) -> Feed:
    made = Feed(history=history, queue=queue)
    made.reset(State(revision=1))
    for number in range(changes):
        made.apply(number + 2, update(number))
    return made


async def first(feed: Feed, from_revision: int = 0) -> Change:
    async with aclosing(feed.watch(from_revision)) as changes:
        return await anext(changes)


async def test_a_watch_resumes_as_far_back_as_changes_are_kept() -> None:
    full = feed(25, history=10)
    assert (await first(full, 16)).revision == 17
    assert not (await first(full, 16)).snapshot
    assert (await first(full, 15)).snapshot, "older ones are gone"
    assert (await first(full, 27)).snapshot, "it never was"


async def test_a_watch_that_is_up_to_date_is_told_nothing_until_something_changes() -> None:
    quiet = feed(3)
    async with aclosing(quiet.watch(4)) as changes:
        waiting = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        quiet.apply(5, update(9))
        assert (await waiting).revision == 5


async def test_above_the_bound_of_watchers_a_watch_is_refused_with_a_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archon_services.registry.store.feed.MAX_WATCHERS", 1)
    made = feed(1)
    async with aclosing(made.watch()) as only:
        await anext(only)
        with pytest.raises(ResourceExhausted) as refused:
            await first(made)
        assert refused.value.retry_delay
    assert (await first(made)).snapshot


async def test_a_watcher_that_is_too_slow_is_sent_away_and_the_others_stay() -> None:
    """E4."""
    busy = feed(0, queue=5)
    async with aclosing(busy.watch()) as slow, aclosing(busy.watch()) as quick:
        await anext(slow)
        await anext(quick)
        for number in range(6):
            busy.apply(number + 2, update(number))
            assert (await anext(quick)).revision == number + 2
        with pytest.raises(ResourceExhausted) as caught:
            await anext(slow)
        assert caught.value.retry_delay


async def test_a_reset_tells_the_difference() -> None:
    made = feed(3)
    async with aclosing(made.watch()) as changes:
        await anext(changes)
        made.reset(State(9, {"new": Registration(instance_id="new", role="r")}))
        change = await anext(changes)
    assert not change.snapshot
    assert (change.revision, [one.instance_id for one in change.instances], sorted(change.removed)) == (
        9,
        ["new"],
        ["i0", "i1", "i2"],
    )


async def test_a_reset_to_an_earlier_revision_is_a_snapshot_and_ends_resuming() -> None:
    made = feed(3)
    async with aclosing(made.watch()) as changes:
        await anext(changes)
        made.reset(State(2))
        assert (await anext(changes)) == Change(2, True, (), (), made.graph)
    assert (await first(made, 4)).snapshot


async def test_the_end_comes_after_what_is_queued() -> None:
    made = feed(0)
    async with aclosing(made.watch()) as changes:
        await anext(changes)
        made.apply(2, update(1))
        made.end(Unavailable("stopping"))
        assert (await anext(changes)).revision == 2
        with pytest.raises(Unavailable):
            await anext(changes)
