"""Feeds: every item once per subscription, in order, within bounds."""

from __future__ import annotations

import asyncio

import pytest

from archon.errors import Aborted, ResourceExhausted, Unavailable
from archon_services.common.feed import Feed
from tests.fixtures.waiting import run_ready_tasks


async def test_subscription_gets_the_items_of_its_topic_in_order() -> None:
    feed = Feed[str]()
    with feed.subscribe("a") as first, feed.subscribe("b") as second:
        feed.publish("1", "a")
        feed.publish("2", "b")
        feed.publish("3", "a")
        assert [await first.next(), await first.next()] == ["1", "3"]
        assert await second.next() == "2"


async def test_next_waits_for_an_item() -> None:
    feed = Feed[str]()
    with feed.subscribe() as subscription:
        task = asyncio.ensure_future(subscription.next())
        await run_ready_tasks()
        assert not task.done()
        feed.publish("late")
        assert await task == "late"


async def test_slow_subscription_ends_at_once_and_others_stay() -> None:
    feed = Feed[int](max_queued=2)
    with feed.subscribe() as slow, feed.subscribe() as fast:
        for number in range(3):
            feed.publish(number)
            assert await fast.next() == number
        with pytest.raises(ResourceExhausted) as caught:
            await slow.next()
        assert caught.value.retry_delay == 1.0


async def test_queue_is_bounded_by_the_size_of_its_items() -> None:
    feed = Feed[str](max_size=10, size=len)
    with feed.subscribe() as subscription:
        feed.publish("x" * 50)
        assert await subscription.next() == "x" * 50
        feed.publish("x" * 11)
        feed.publish("y")
        with pytest.raises(ResourceExhausted):
            await subscription.next()


async def test_end_comes_after_the_queued_items_and_the_first_counts() -> None:
    feed = Feed[str]()
    with feed.subscribe() as subscription:
        feed.publish("queued")
        feed.end(Unavailable("stopping"))
        feed.end(Aborted("later"))
        feed.publish("dropped")
        assert await subscription.next() == "queued"
        with pytest.raises(Unavailable):
            await subscription.next()


async def test_end_leaves_later_subscriptions_alone_and_close_does_not() -> None:
    feed = Feed[str]()
    feed.end(Unavailable("outage"))
    with feed.subscribe() as subscription:
        feed.publish("item")
        assert await subscription.next() == "item"
    feed.close(Unavailable("stopping"))
    with feed.subscribe() as subscription, pytest.raises(Unavailable):
        await subscription.next()


async def test_subscription_above_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archon_services.common.feed.MAX_SUBSCRIPTIONS", 1)
    feed = Feed[str]()
    with feed.subscribe("a"):
        with pytest.raises(ResourceExhausted) as caught, feed.subscribe("b"):
            pass
        assert caught.value.retry_delay
    with feed.subscribe("b"):
        pass
