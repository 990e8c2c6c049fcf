"""Work lists: each item is given to one member at a time, and comes back from members that are gone."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from archon.agent import WorkItem, WorkList
from archon.agent.local_values import LocalValues
from archon.agent.work_item import MAX_ITEM_BYTES, MAX_ITEMS, MAX_RESULT_BYTES
from archon.agent.work_list import LEASE_SECONDS, OUTAGE_SECONDS, TRIES, work_scope
from archon.errors import (
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    LeaseExpired,
    ResourceExhausted,
    Unavailable,
)
from tests.fixtures.virtual_time import in_virtual_time, pass_time
from tests.fixtures.waiting import run_ready_tasks


def member(values: LocalValues, task: str = "", attempt: int = 1) -> WorkList:
    return WorkList(values, task_id=task, attempt=attempt, clock=asyncio.get_running_loop().time)


async def killed(work: WorkList) -> None:
    """The member ends as its process does by SIGKILL: it gives nothing back, and renews nothing any more."""
    await work._renewing.close()


async def taken(work: WorkList) -> WorkItem:
    item = await work.take(1)
    assert item is not None
    return item


@in_virtual_time
async def test_fifty_items_among_three_members_are_done_once_each() -> None:
    values, done = LocalValues(), []

    async def serve(name: str) -> None:
        async with member(values, name) as work:
            await work.add(range(50))
            async for item in work:
                await pass_time(0.01 * (item.value % 3))
                done.append(item.value)
                await work.done(item, item.value * 2)

    await asyncio.gather(*(serve(name) for name in "abc"))
    assert sorted(done) == list(range(50))
    results = await member(values).results()
    assert sorted(results.done.values()) == [2 * value for value in range(50)]
    assert (results.failed, results.open) == ({}, ())


@in_virtual_time
async def test_items_keep_their_order_and_say_their_place() -> None:
    async with member(LocalValues()) as work:
        assert await work.add({"first": "a", "second": "b"}) == 2
        assert await work.add({"second": "other", "third": "c"}) == 1
        items = [await taken(work) for _ in range(3)]
        assert [(item.id, item.value, item.number, item.total, item.tries) for item in items] == [
            ("first", "a", 1, 3, 1),
            ("second", "b", 2, 3, 1),
            ("third", "c", 3, 3, 1),
        ]
        assert work.held == ("first", "second", "third")


@in_virtual_time
async def test_equal_items_without_ids_are_one_item() -> None:
    async with member(LocalValues()) as work:
        assert await work.add([{"a": 1, "b": 2}, {"b": 2, "a": 1}, "x"]) == 2
        assert await work.add(["x"]) == 0


@in_virtual_time
async def test_an_empty_list_is_complete_at_once() -> None:
    async with member(LocalValues()) as work:
        assert await work.add([]) == 0
        assert await work.take() is None
        assert [item async for item in work] == []


@in_virtual_time
async def test_take_waits_for_the_list_to_be_made_and_for_new_items() -> None:
    values = LocalValues()
    async with member(values) as early, member(values) as late:
        waiting = asyncio.create_task(early.take())
        await run_ready_tasks()
        assert not waiting.done()
        await late.add({"1": "x"})
        item = await waiting
        assert item is not None
        other = asyncio.create_task(late.take())
        await run_ready_tasks()
        assert not other.done()
        await early.add({"2": "y"})
        await early.done(item)
        added = await other
        assert added is not None
        assert added.id == "2"
        ending = asyncio.create_task(early.take())
        await run_ready_tasks()
        await late.done(added)
        assert await ending is None


@in_virtual_time
async def test_take_ends_with_an_error_at_the_end_of_its_time() -> None:
    values = LocalValues()
    async with member(values) as holder, member(values) as waiting:
        await holder.add(["x"])
        item = await taken(holder)
        with pytest.raises(DeadlineExceeded, match="no item of the work list was free within 100 s"):
            await waiting.take(100)  # the holder lives, and renews its claim
        await holder.done(item)
        assert await waiting.take(1) is None


@in_virtual_time
async def test_the_time_of_the_task_limits_take() -> None:
    work = WorkList(LocalValues(), clock=asyncio.get_running_loop().time, remaining=lambda: 5.0)
    started = asyncio.get_running_loop().time()
    with pytest.raises(DeadlineExceeded):
        await work.take()
    assert asyncio.get_running_loop().time() - started == pytest.approx(5.0)
    await work.close()


@in_virtual_time
async def test_an_item_of_a_dead_member_comes_back_after_the_lease() -> None:
    values, loop = LocalValues(), asyncio.get_running_loop()
    async with member(values, "b") as other:
        dead = member(values, "a")
        await dead.add(["x"])
        late = await taken(dead)
        await killed(dead)
        started = loop.time()
        item = await other.take()
        assert item is not None
        assert (item.tries, round(loop.time() - started)) == (2, LEASE_SECONDS)
        with pytest.raises(LeaseExpired, match="another member has it"):
            await dead.done(late, "late")
        await other.done(item, "right")
        with pytest.raises(LeaseExpired, match="it is done already"):
            await dead.done(late, "late")
        with pytest.raises(LeaseExpired):
            await dead.fail(late, "late")
        assert (await other.results()).done == {item.id: "right"}


@in_virtual_time
async def test_a_later_attempt_takes_over_its_own_claims_at_once() -> None:
    values, loop = LocalValues(), asyncio.get_running_loop()
    first = member(values, "a", attempt=1)
    await first.add({"1": "x"})
    old = await taken(first)
    async with member(values, "a", attempt=2) as second:
        started = loop.time()
        item = await taken(second)
        assert (item.id, item.tries, loop.time()) == ("1", 2, started)
        with pytest.raises(LeaseExpired):
            await first.done(old)
        assert first.held == ()
        with pytest.raises(DeadlineExceeded):
            await first.take(100)  # an earlier attempt gets nothing back from a later one
        await second.done(item)
    await first.close()


@in_virtual_time
async def test_a_member_that_lies_ends_nothing() -> None:
    values = LocalValues()
    async with member(values, "a") as honest, member(values, "b") as liar:
        await honest.add({"1": "x", "2": "y"})
        item = await taken(honest)
        forged = [
            item,
            WorkItem("1", "x", 1, 2, 1, liar._member),
            WorkItem("2", "y", 2, 2, 1, liar._member),
            WorkItem("3", "z", 3, 3, 1, liar._member),
        ]
        for each in forged:
            with pytest.raises(LeaseExpired):
                await liar.done(each, "stolen")
            with pytest.raises(LeaseExpired):
                await liar.fail(each, "stolen", is_final=True)
        await honest.done(item, "honest")
        assert (await liar.results()).done == {"1": "honest"}


@in_virtual_time
async def test_values_that_are_no_items_are_left_out() -> None:
    values = LocalValues()
    async with member(values) as work:
        await work.add({"1": "x"})
        for garbage in ("text", {}, {"item": 1, "most": "?", "state": "free", "tries": 0}, {"state": "held"}):
            await values.set("item/2", garbage)
        await values.set("item/3", {"item": 1, "most": 3, "state": "free", "tries": 0})  # not in the list
        await work.done(await taken(work))
        assert await work.take() is None


@in_virtual_time
async def test_done_again_in_the_same_way_changes_nothing() -> None:
    async with member(LocalValues()) as work:
        await work.add({"1": "x"})
        item = await taken(work)
        await work.done(item, 1)
        await work.done(item, 1)
        with pytest.raises(LeaseExpired):
            await work.done(item, 2)
        assert (await work.results()).done == {"1": 1}


@in_virtual_time
async def test_an_item_that_fails_in_every_hand_is_reported() -> None:
    values, hands = LocalValues(), []

    async def serve(name: str) -> None:
        async with member(values, name) as work:
            async for item in work:
                if item.value == "bad":
                    hands.append((name, item.tries))
                    await work.fail(item, f"{name} cannot")
                else:
                    await pass_time(0.1)
                    await work.done(item, "good")

    await member(values).add({"1": "bad", "2": "good", "3": "good", "4": "good"})
    await asyncio.gather(*(serve(name) for name in "abc"))
    assert [tries for _, tries in hands] == list(range(1, TRIES + 1))
    assert len({name for name, _ in hands}) > 1
    results = await member(values).results()
    assert list(results.failed) == ["1"]
    assert results.failed["1"].endswith("cannot")
    assert list(results.done) == ["2", "3", "4"]


@in_virtual_time
async def test_an_item_whose_members_die_fails_after_its_tries() -> None:
    values = LocalValues()
    await member(values).add({"1": "poison"}, tries=2)
    for _ in range(2):
        dying = member(values)
        assert await dying.take() is not None
        await killed(dying)
    async with member(values) as last:
        assert await last.take() is None
        assert "given out 2 times" in (await last.results()).failed["1"]


@in_virtual_time
async def test_a_final_failure_is_not_tried_again() -> None:
    async with member(LocalValues()) as work:
        await work.add({"1": "x"})
        await work.fail(await taken(work), "wrong for ever", is_final=True)
        assert await work.take() is None
        assert (await work.results()).failed == {"1": "wrong for ever"}


@in_virtual_time
async def test_closing_gives_back_what_is_held() -> None:
    values = LocalValues()
    leaving = member(values, "a")
    await leaving.add({"1": "x"})
    assert await leaving.take() is not None
    await leaving.close()
    await leaving.close()
    with pytest.raises(FailedPrecondition):
        await leaving.take()
    async with member(values, "b") as other:
        assert (await taken(other)).tries == 2


@in_virtual_time
async def test_two_members_that_add_the_same_items_make_one_list() -> None:
    values = LocalValues()
    lists = [member(values) for _ in range(5)]
    added = await asyncio.gather(*(each.add({str(n): n for n in range(20)}) for each in lists))
    assert sum(added) == 20
    assert len((await lists[0].results()).open) == 20


@in_virtual_time
async def test_items_that_a_dead_member_has_not_committed_are_invisible() -> None:
    class Dying(LocalValues):
        async def set(self, key: str, value: Any, expected_version: int | None = None) -> int:
            if key == "list" and value:
                raise asyncio.CancelledError
            return await super().set(key, value, expected_version)

    values = Dying()
    async with member(values) as work:
        await work.add([])
        with pytest.raises(asyncio.CancelledError):
            await work.add({"1": "x"})
        assert await work.take() is None
        values.__class__ = LocalValues  # type: ignore[assignment]
        assert await work.add({"1": "x"}) == 1
        assert (await taken(work)).value == "x"


class Outages(LocalValues):
    """Values whose writes fail, before or after they are made, as often as `failures` says."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[str] = []

    async def set(self, key: str, value: Any, expected_version: int | None = None) -> int:
        kind = self.failures.pop(0) if self.failures else ""
        if kind == "before":
            raise Unavailable("away")
        version = await super().set(key, value, expected_version)
        if kind == "after":
            raise Unavailable("away")
        return version


@pytest.mark.parametrize("kind", ["before", "after"])
def test_writes_whose_answers_are_lost_are_made_once(kind: str) -> None:
    @in_virtual_time
    async def played() -> None:
        values = Outages()
        async with member(values, "a") as work:
            steps: list[Callable[[], Awaitable[Any]]] = [lambda: work.add({"1": "x"}), work.take]
            values.failures = [kind, kind]
            await steps[0]()
            values.failures = [kind]
            item = await steps[1]()
            assert (item.id, item.tries) in [("1", 1), ("1", 2)]
            values.failures = [kind]
            await work.done(item, "y")
            assert (await work.results()).done == {"1": "y"}
            assert await work.take() is None

    played()


@in_virtual_time
async def test_reads_wait_a_minute_for_a_service_that_is_away() -> None:
    class Away(LocalValues):
        until = math.inf

        async def get_value(self, key: str) -> Any:
            if asyncio.get_running_loop().time() < self.until:
                raise Unavailable("away")
            return await super().get_value(key)

    values, loop = Away(), asyncio.get_running_loop()
    async with member(values) as work:
        with pytest.raises(Unavailable):
            await work.add(["x"])
        values.until = loop.time() + OUTAGE_SECONDS / 2
        assert await work.add(["x"]) == 1


@in_virtual_time
async def test_lists_items_and_results_are_bounded() -> None:
    async with member(LocalValues()) as work:
        with pytest.raises(ResourceExhausted, match="at most 1,000 items"):
            await work.add(range(MAX_ITEMS + 1))
        await work.add(range(MAX_ITEMS))
        with pytest.raises(ResourceExhausted, match="at most 1,000 items"):
            await work.add(["one more"])
        with pytest.raises(ResourceExhausted, match="as JSON, at most 16,384"):
            await work.add(["x" * MAX_ITEM_BYTES])
        item = await taken(work)
        with pytest.raises(ResourceExhausted, match="as JSON, at most 32,768"):
            await work.done(item, "x" * MAX_RESULT_BYTES)
        await work.done(item, "x" * (MAX_RESULT_BYTES - 2))


@pytest.mark.parametrize("items", [{"": 1}, {"a/b": 1}, {"x" * 101: 1}, {3: 1}, [object()], [math.nan], ["\ud800"]])
def test_invalid_items_are_refused(items: Any) -> None:
    @in_virtual_time
    async def played() -> None:
        with pytest.raises(InvalidArgument):
            await WorkList().add(items)

    played()


@pytest.mark.parametrize("tries", [0, 21])
def test_tries_out_of_range_are_refused(tries: int) -> None:
    @in_virtual_time
    async def played() -> None:
        with pytest.raises(InvalidArgument):
            await WorkList().add(["x"], tries=tries)

    played()


def test_the_scope_of_a_list_has_the_run_and_the_name() -> None:
    assert work_scope("run-1", "pages") == "run-1/work/pages"
    for name in ("", "a/b", "x" * 65):
        with pytest.raises(InvalidArgument):
            work_scope("run-1", name)
