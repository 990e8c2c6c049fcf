"""Incarnations in virtual time: which of them are expired, and which are not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import cast

from archon.errors import Unavailable
from archon_mesh.engine import inputs as inp
from archon_services.orchestrator.convert.command import encode_command
from archon_services.orchestrator.journal import CommandRow, MemoryJournal, OwnerRow, RunRow
from archon_services.orchestrator.ownership import Ownership
from archon_services.orchestrator.ownership.lease import LEASE
from tests.fixtures.journal import commit, new_run, step_of
from tests.simulation.loop import VirtualLoop, run_virtual

TAKEN_OVER_WITHIN = 5.0
CANCEL = encode_command(inp.Cancel("caller", "enough"), 1.0)


class Store(MemoryJournal):
    """A shared journal that can be made unreachable."""

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
    """Holds runs and does nothing with them."""

    names = count(1)

    def __init__(self, store: Store, room: int = 100) -> None:
        self.owner = f"o{next(self.names)}"
        self.room = room
        self.held: dict[str, int] = {}
        self.first: dict[str, list[bytes]] = {}
        self.commands_received: list[bytes] = []
        self.releases = 0
        self.frozen = 0.0
        self.ownership = Ownership(
            store, self, new_owner=lambda: f"o{next(self.names)}", monotonic=self.monotonic, jitter=lambda: 0.01
        )

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def holds(self, run_id: str) -> bool:
        return run_id in self.held

    async def take_over(self, row: RunRow, commands: Sequence[CommandRow]) -> None:
        self.held[row.run_id] = row.epoch
        self.first[row.run_id] = [command.data for command in commands]
        self.room -= 1

    def command(self, row: CommandRow) -> None:
        self.commands_received.append(row.data)

    def expired(self, owner: str) -> None:
        """Another replica has died."""

    def release_all(self) -> None:
        self.held.clear()
        self.releases += 1

    async def start(self) -> Replica:
        await self.ownership.start()
        return self


async def submit(store: Store, owner: str, *run_ids: str) -> None:
    for run_id in run_ids:
        await commit(store, step_of(run_id, 0, [b"e"], new=new_run(run_id, owner=owner)))


async def all_held(replica: Replica, count: int, within: float) -> float:
    """Waits until the replica holds `count` runs; returns the seconds that it took."""
    began = replica.monotonic()
    async with asyncio.timeout(within):
        while len(replica.held) < count:  # noqa: ASYNC110 - in virtual time
            await asyncio.sleep(0.01)
    return replica.monotonic() - began


def test_durability_9_an_expired_owners_runs_are_taken_over() -> None:
    async def course() -> None:
        store = Store()
        first, second = await Replica(store).start(), await Replica(store).start()
        await submit(store, first.owner, *(f"r{n}" for n in range(30)))
        first.held = dict.fromkeys((f"r{n}" for n in range(30)), 1)
        await asyncio.sleep(10)
        assert not second.held, "its owner is alive"
        await store.post("r7", CANCEL)
        await first.ownership.stop()  # kill -9
        assert await all_held(second, 30, TAKEN_OVER_WITHIN) > LEASE - 1.1
        assert set(second.held.values()) == {2}
        assert second.first["r7"] == [CANCEL], "commands that wait for the run are taken over with it"
        assert [row.owner for row in await store.live_owners()] == [second.owner]
        await second.ownership.stop()

    run_virtual(course())


def test_durability_9_an_outage_of_the_store_deposes_no_owner() -> None:
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
        assert [replica.releases for replica in replicas] == [0, 0, 0]
        assert all(replica.ownership.may_send() for replica in replicas)
        assert (await store.run("r")).owner == replicas[0].owner  # type: ignore[union-attr]
        for replica in replicas:
            await replica.ownership.stop()

    run_virtual(course())


def test_durability_9_a_late_reconnect_does_not_expire_its_owner() -> None:
    async def course() -> None:
        store = Store()
        first, second = await Replica(store).start(), await Replica(store).start()
        await asyncio.sleep(5)
        store.gone = True
        await asyncio.sleep(30)
        store.gone, beat = False, store.beat

        async def late(owner: str, address: str) -> bool:
            if owner == first.owner:
                raise Unavailable("its connection is not back yet")
            return await beat(owner, address)

        store.beat = late  # type: ignore[method-assign]
        await asyncio.sleep(LEASE + 2.0)
        store.beat = beat  # type: ignore[method-assign]
        await asyncio.sleep(10)
        assert (first.releases, second.releases) == (0, 0)
        for replica in (first, second):
            await replica.ownership.stop()

    run_virtual(course())


def test_durability_9_an_observer_that_was_frozen_counts_anew() -> None:
    async def course() -> None:
        store = Store()
        first, second = await Replica(store).start(), await Replica(store).start()
        await asyncio.sleep(2)
        owner = first.owner
        await first.ownership.stop()
        await asyncio.sleep(LEASE - 0.8)
        cast(VirtualLoop, asyncio.get_running_loop()).now += 20.0  # frozen, and thawed
        await asyncio.sleep(1.0)
        assert owner in {row.owner for row in await store.live_owners()}
        await asyncio.sleep(2 * LEASE)
        assert owner not in {row.owner for row in await store.live_owners()}
        await second.ownership.stop()

    run_virtual(course())


def test_durability_9_an_observer_without_cpu_time_takes_over_in_time() -> None:
    async def course() -> None:
        store = Store()
        first, second = await Replica(store).start(), await Replica(store).start()
        await submit(store, first.owner, "r")
        loop = cast(VirtualLoop, asyncio.get_running_loop())

        async def stall() -> None:
            while True:
                await asyncio.sleep(1.0)
                loop.now += 0.8  # the loop stands still

        await asyncio.sleep(2)
        stalling = asyncio.create_task(stall())
        await asyncio.sleep(10)
        assert first.releases == second.releases == 0
        await first.ownership.stop()  # kill -9
        await all_held(second, 1, TAKEN_OVER_WITHIN)
        stalling.cancel()
        await second.ownership.stop()

    run_virtual(course())


def test_durability_9_a_short_stall_of_the_store_deposes_no_owner() -> None:
    async def course() -> None:
        store = Store()
        replicas = [await Replica(store).start() for _ in range(3)]
        loop = cast(VirtualLoop, asyncio.get_running_loop())
        for _ in range(20):
            await asyncio.sleep(1.7)
            loop.now += LEASE - 0.1  # everything stands still
        await asyncio.sleep(2 * LEASE)
        assert [replica.releases for replica in replicas] == [0, 0, 0]
        for replica in replicas:
            await replica.ownership.stop()

    run_virtual(course())


def test_durability_8_an_expired_owner_releases_and_reenters() -> None:
    async def course() -> None:
        store = Store()
        zombie, second = await Replica(store).start(), await Replica(store).start()
        before = zombie.owner
        await submit(store, before, "r")
        zombie.held["r"] = 1
        row = next(row for row in await store.live_owners() if row.owner == before)
        assert await store.expire(before, row.beat)
        await asyncio.sleep(2.5)
        assert zombie.releases == 1
        assert zombie.owner != before
        assert {row.owner for row in await store.live_owners()} == {zombie.owner, second.owner}
        assert ("r" in zombie.held) != ("r" in second.held), "exactly one replica owns the run"
        for replica in (zombie, second):
            await replica.ownership.stop()

    run_virtual(course())


def test_durability_8_runs_accepted_while_expired_are_released() -> None:
    async def course() -> None:
        store = Store()
        replica = await Replica(store).start()
        before, enter = replica.owner, store.enter

        async def slow(owner: OwnerRow) -> None:
            await asyncio.sleep(0.5)
            replica.held["accepted meanwhile"] = 1
            await enter(owner)

        store.enter = slow  # type: ignore[method-assign]
        row = next(row for row in await store.live_owners() if row.owner == before)
        assert await store.expire(before, row.beat)
        await asyncio.sleep(3.0)
        assert replica.owner != before
        assert not replica.held
        await replica.ownership.stop()

    run_virtual(course())


def test_durability_10_runs_claimed_while_expired_are_not_held() -> None:
    async def course() -> None:
        store = Store()
        replica = await Replica(store).start()
        claim = store.claim_some

        async def slow(owner: str, limit: int, revision: int) -> list[RunRow]:
            rows = await claim(owner, limit, revision)
            if rows and rows[0].epoch == 2:
                replica.owner = "a new incarnation"
            return rows

        store.claim_some = slow  # type: ignore[method-assign]
        await submit(store, "absent", "r")
        await asyncio.sleep(0.5)
        assert not replica.held
        await replica.ownership.stop()

    run_virtual(course())


def test_durability_10_an_expired_owner_claims_nothing() -> None:
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
        assert replica.owner == before, "its next heartbeat is still due"
        row_of = await store.run("r")
        assert row_of is not None
        assert row_of.epoch == 1
        await replica.ownership.stop()

    run_virtual(course())


def test_durability_11_a_lease_counts_from_before_its_renewal() -> None:
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
        lapsed = 0
        for _ in range(40):
            await asyncio.sleep(0.25)
            lapsed += not replica.ownership.may_send()
        assert lapsed, "each renewal arrives shortly before the lease ends"
        await replica.ownership.stop()

    run_virtual(course())


def test_durability_10_a_stop_hands_runs_to_replicas_with_room() -> None:
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


def test_durability_13_a_command_reaches_the_owner_of_its_run() -> None:
    async def course() -> None:
        store = Store()
        replica = await Replica(store).start()
        await submit(store, replica.owner, "r", "over")
        replica.held["r"] = 1
        await commit(store, step_of("over", 1, [b"e"], state=3, ended=True))
        await store.post("r", CANCEL)
        await store.post("over", CANCEL)
        await asyncio.sleep(0.3)
        assert replica.commands_received == [CANCEL]
        assert [row.run_id for row in await store.posted(replica.owner)] == ["r"], (
            "it stays in the mailbox until an append removes it"
        )
        await replica.ownership.stop()

    run_virtual(course())
