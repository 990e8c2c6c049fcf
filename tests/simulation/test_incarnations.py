"""Incarnations in virtual time: who is taken for dead, and who isn't."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import cast

from archon.errors import Unavailable
from archon_services.orchestrator.journal import CommandRow, MemoryJournal, OwnerRow, RunRow
from archon_services.orchestrator.ownership import Ownership
from archon_services.orchestrator.ownership.lease import LEASE
from archon_services.orchestrator.ports import Clock
from tests.fixtures.journal import commit, new_run, step_of
from tests.simulation.loop import VirtualLoop, run_virtual

TAKEN_OVER_WITHIN = 5.0


class Store(MemoryJournal):
    """Shared, and at times unreachable."""

    def __init__(self) -> None:
        super().__init__(shared=True)
        self.gone = False

    async def beat(self, owner: str, address: str) -> bool:
        self._reach()
        return await super().beat(owner, address)

    async def live_owners(self) -> list[OwnerRow]:
        self._reach()
        return await super().live_owners()

    def _reach(self) -> None:
        if self.gone:
            raise Unavailable("the database is gone")


class Replica:
    """Holds runs, and does nothing with them."""

    names = count(1)

    def __init__(self, store: Store, room: int = 100) -> None:
        self.owner = f"o{next(self.names)}"
        self.room = room
        self.held: dict[str, int] = {}
        self.first: dict[str, list[bytes]] = {}
        self.heard: list[bytes] = []
        self.let_go_times = 0
        self.frozen = 0.0
        self.ownership = Ownership(
            store, self, new_owner=lambda: f"o{next(self.names)}", monotonic=self.monotonic, jitter=lambda: 0.01
        )

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def holds(self, run_id: str) -> bool:
        return run_id in self.held

    async def take_over(self, row: RunRow, commands: Sequence[CommandRow], clock: Clock) -> None:
        self.held[row.run_id] = row.epoch
        self.first[row.run_id] = [command.data for command in commands]
        self.room -= 1

    def command(self, row: CommandRow) -> None:
        self.heard.append(row.data)

    def release_all(self) -> None:
        self.held.clear()
        self.let_go_times += 1

    async def start(self) -> Replica:
        await self.ownership.start()
        return self


async def submit(store: Store, owner: str, *run_ids: str) -> None:
    for run_id in run_ids:
        await commit(store, step_of(run_id, 0, [b"e"], new=new_run(run_id, owner=owner)))


async def all_held(replica: Replica, count: int, within: float) -> float:
    """Seconds until it holds so many."""
    began = replica.monotonic()
    async with asyncio.timeout(within):
        while len(replica.held) < count:  # noqa: ASYNC110 - in virtual time
            await asyncio.sleep(0.01)
    return replica.monotonic() - began


def test_durability_9_whoever_beats_no_more_is_buried_and_its_runs_are_taken_over_in_time() -> None:
    async def course() -> None:
        store = Store()
        first, second = await Replica(store).start(), await Replica(store).start()
        await submit(store, first.owner, *(f"r{n}" for n in range(30)))
        first.held = dict.fromkeys((f"r{n}" for n in range(30)), 1)
        await asyncio.sleep(10)
        assert not second.held, "it lives"
        await store.post("r7", b"cancel")
        await first.ownership.stop()  # kill -9
        assert await all_held(second, 30, TAKEN_OVER_WITHIN) > LEASE - 1.1
        assert set(second.held.values()) == {2}
        assert second.first["r7"] == [b"cancel"], "what waits for a run comes before all else"
        assert [row.owner for row in await store.live_owners()] == [second.owner]
        await second.ownership.stop()

    run_virtual(course())


def test_durability_9_a_store_that_is_gone_for_half_a_minute_deposes_nobody() -> None:
    async def course() -> None:
        store = Store()
        replicas = [await Replica(store).start() for _ in range(3)]
        await submit(store, replicas[0].owner, "r")
        await asyncio.sleep(5)
        store.gone = True
        await asyncio.sleep(30)
        assert not any(replica.ownership.may_send() for replica in replicas)
        store.gone = False
        await asyncio.sleep(10)
        assert [replica.let_go_times for replica in replicas] == [0, 0, 0]
        assert all(replica.ownership.may_send() for replica in replicas)
        assert (await store.run("r")).owner == replicas[0].owner  # type: ignore[union-attr]
        for replica in replicas:
            await replica.ownership.stop()

    run_virtual(course())


def test_durability_9_whoever_comes_back_to_the_store_a_little_later_than_the_others_is_not_buried() -> None:
    async def course() -> None:
        store = Store()
        first, second = await Replica(store).start(), await Replica(store).start()
        await asyncio.sleep(5)
        store.gone = True
        await asyncio.sleep(30)
        store.gone, beat = False, store.beat

        async def late(owner: str, address: str) -> bool:
            if owner == first.owner:
                raise Unavailable("its connection isn't back yet")
            return await beat(owner, address)

        store.beat = late  # type: ignore[method-assign]
        await asyncio.sleep(LEASE + 2.0)
        store.beat = beat  # type: ignore[method-assign]
        await asyncio.sleep(10)
        assert (first.let_go_times, second.let_go_times) == (0, 0)
        for replica in (first, second):
            await replica.ownership.stop()

    run_virtual(course())


def test_durability_9_an_observer_that_was_away_itself_starts_its_counts_again() -> None:
    async def course() -> None:
        store = Store()
        first, second = await Replica(store).start(), await Replica(store).start()
        await asyncio.sleep(2)
        seen = first.owner
        await first.ownership.stop()
        await asyncio.sleep(LEASE - 0.8)
        cast(VirtualLoop, asyncio.get_running_loop()).now += 20.0  # frozen, and thawed
        await asyncio.sleep(1.0)
        assert seen in {row.owner for row in await store.live_owners()}
        await asyncio.sleep(2 * LEASE)
        assert seen not in {row.owner for row in await store.live_owners()}
        await second.ownership.stop()

    run_virtual(course())


def test_durability_8_whoever_finds_itself_buried_lets_go_of_everything_and_begins_anew() -> None:
    async def course() -> None:
        store = Store()
        zombie, other = await Replica(store).start(), await Replica(store).start()
        before = zombie.owner
        await submit(store, before, "r")
        zombie.held["r"] = 1
        row = next(row for row in await store.live_owners() if row.owner == before)
        assert await store.expire(before, row.beat)
        await asyncio.sleep(2.5)
        assert zombie.let_go_times == 1
        assert zombie.owner != before
        assert {row.owner for row in await store.live_owners()} == {zombie.owner, other.owner}
        assert ("r" in zombie.held) != ("r" in other.held), "one of them has it now"
        for replica in (zombie, other):
            await replica.ownership.stop()

    run_virtual(course())


def test_durability_8_what_is_taken_on_in_an_old_name_is_let_go_with_all_the_rest() -> None:
    async def course() -> None:
        store = Store()
        replica = await Replica(store).start()
        before, enter = replica.owner, store.enter

        async def slow(owner: OwnerRow) -> None:
            await asyncio.sleep(0.5)
            replica.held["taken on meanwhile"] = 1
            await enter(owner)

        store.enter = slow  # type: ignore[method-assign]
        row = next(row for row in await store.live_owners() if row.owner == before)
        assert await store.expire(before, row.beat)
        await asyncio.sleep(3.0)
        assert replica.owner != before
        assert not replica.held
        await replica.ownership.stop()

    run_virtual(course())


def test_durability_10_what_was_claimed_in_a_name_that_is_buried_by_then_is_not_taken_up() -> None:
    async def course() -> None:
        store = Store()
        replica = await Replica(store).start()
        claim = store.claim_some

        async def slow(owner: str, limit: int, revision: int) -> list[RunRow]:
            rows = await claim(owner, limit, revision)
            if rows and rows[0].epoch == 2:
                replica.owner = "another by now"
            return rows

        store.claim_some = slow  # type: ignore[method-assign]
        await submit(store, "nobody", "r")
        await asyncio.sleep(0.5)
        assert not replica.held
        await replica.ownership.stop()

    run_virtual(course())


def test_durability_10_whoever_is_buried_and_does_not_know_yet_claims_nothing() -> None:
    async def course() -> None:
        store = Store()
        replica = await Replica(store).start()
        before = replica.owner
        await submit(store, before, "r")
        replica.held["r"] = 1
        await asyncio.sleep(1.2)
        row = next(row for row in await store.live_owners() if row.owner == before)
        assert await store.expire(before, row.beat)
        await asyncio.sleep(0.6)
        assert replica.owner == before, "its next beat is still to come"
        row_of = await store.run("r")
        assert row_of is not None
        assert row_of.epoch == 1
        await replica.ownership.stop()

    run_virtual(course())


def test_durability_11_a_lease_is_counted_from_before_its_renewal_was_sent() -> None:
    async def course() -> None:
        store = Store()
        replica = await Replica(store).start()
        beat = store.beat

        async def slow(owner: str, address: str) -> bool:
            await asyncio.sleep(LEASE - 0.6)
            return await beat(owner, address)

        await asyncio.sleep(1.5)
        assert replica.ownership.may_send()
        store.beat = slow  # type: ignore[method-assign]
        await asyncio.sleep(LEASE)
        held_still = 0
        for _ in range(40):
            await asyncio.sleep(0.25)
            held_still += not replica.ownership.may_send()
        assert held_still, "each renewal arrives when it is nearly over"
        await replica.ownership.stop()

    run_virtual(course())


def test_durability_10_a_replica_claims_no_more_than_it_can_carry_and_sigterm_gives_all_up_at_once() -> None:
    async def course() -> None:
        store = Store()
        first = await Replica(store).start()
        await submit(store, first.owner, *(f"r{n}" for n in range(10)))
        second, third = await Replica(store, room=4).start(), await Replica(store).start()
        await first.ownership.stop()
        await first.ownership.leave()
        await asyncio.sleep(1.0)
        assert len(second.held) <= 4
        assert len(second.held) + len(third.held) == 10
        assert not second.held.keys() & third.held.keys()
        for replica in (second, third):
            await replica.ownership.stop()

    run_virtual(course())


def test_durability_13_a_command_reaches_the_owner_within_a_moment_and_one_for_a_run_that_is_over_goes() -> None:
    async def course() -> None:
        store = Store()
        replica = await Replica(store).start()
        await submit(store, replica.owner, "r", "over")
        replica.held["r"] = 1
        await commit(store, step_of("over", 1, [b"e"], state=3, ended=True))
        await store.post("r", b"cancel")
        await store.post("over", b"cancel")
        await asyncio.sleep(0.3)
        assert replica.heard == [b"cancel"]
        assert [row.run_id for row in await store.posted(replica.owner)] == ["r"], "until an append takes it"
        await replica.ownership.stop()

    run_virtual(course())
