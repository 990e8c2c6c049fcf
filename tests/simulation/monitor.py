"""Looks at the mesh while it goes on: that live states are what is durable (V6), that every run is held (V7), that nobody
works on what was called off (V10)."""

from __future__ import annotations

import asyncio

from archon_mesh.core.run import open_effects
from archon_services.orchestrator.ownership.lease import LEASE
from tests.simulation.check import Book
from tests.simulation.replica import Replica
from tests.simulation.world import World

LOOK = 0.5
HELD_WITHIN = LEASE + 5.0
WIDE = 4.0
"""Seconds more, for looks that come at their time and claims that take theirs."""

STOPPED_WITHIN = 1.0


class Monitor:
    """One background loop; what it finds is in `check.violation`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._not_held: dict[str, float] = {}
        self._hears: dict[tuple[str, str], float] = {}

    async def watch(self) -> None:
        """For ever."""
        looks = 0
        while True:
            await asyncio.sleep(LOOK)
            looks += 1
            for run_id, book in self._world.check.books.items():
                if not book.state.ended:
                    self._held(run_id, book, looks)
            self._worked_on()

    def _holder(self, run_id: str, book: Book) -> Replica | None:
        for replica in self._world.replicas.values():
            driver = replica.runs._drivers.get(run_id)
            if driver is not None and replica.up and driver.epoch == book.epoch and not driver.deposed:
                return replica
        return None

    def _held(self, run_id: str, book: Book, looks: int) -> None:
        world, check = self._world, self._world.check
        holder = self._holder(run_id, book)
        if holder is not None:
            self._not_held.pop(run_id, None)
            driver = holder.runs._drivers[run_id]
            if (
                looks % 4 == 0
                and driver.state.last_seq == book.state.last_seq
                and driver.idle()
                and not driver.doubtful
            ):
                same = driver.state == book.state and open_effects(driver.state) == open_effects(book.state)
                check.must("V6", same, f"the live state of {run_id} isn't what its journal says")
            return
        able = min((_able_since(replica) for replica in world.serving), default=world.loop.now)
        gone = max(world.troubled_at, world.store.gone_until)
        since = max(self._not_held.setdefault(run_id, world.loop.now), gone, able)
        waited = world.loop.now - since
        check.must("V7", waited <= HELD_WITHIN + WIDE, f"nobody has held {run_id} for {waited:.1f} s")

    def _worked_on(self) -> None:
        world = self._world
        for agent in world.agents.values():
            if agent.process.halted:
                self._hears = {key: since for key, since in self._hears.items() if key[1] != agent.instance_id}
                continue
            for held in agent.server.attempts:
                book = world.check.books.get(held.ref.run_id)
                if not held.working or book is None or book.ending_at is None:
                    continue
                since = self._could_hear(held.ref.run_id, book, agent.instance_id)
                if since is None:
                    continue
                waited = world.loop.now - since
                world.check.must(
                    "V10",
                    waited <= STOPPED_WITHIN + 2 * LOOK,
                    f"{agent.instance_id} works on {held.ref.task_id} {waited:.1f} s after it could hear of the end",
                )

    def _could_hear(self, run_id: str, book: Book, instance_id: str) -> float | None:
        """Since when the agent has had a whole way to the run's owner; None: it has none, or that owner may not speak, or
        doesn't know yet that the end is durable."""
        world = self._world
        holder = self._holder(run_id, book)
        key = run_id, instance_id
        wire = next(
            (
                one
                for one in world.network.wires
                if holder is not None and one.pair == (holder.name, instance_id) and not one.ended.done()
            ),
            None,
        )
        driver = holder.runs._drivers[run_id] if holder is not None else None
        spoken = driver is not None and book.state.epoch == driver.epoch and not driver.doubtful
        spoken = spoken and holder is not None and run_id not in holder.view.unanswered
        whole = (
            spoken and wire is not None and wire._stream._ready and holder is not None and holder.ownership.may_send()
        )
        if wire is None or not whole or wire.mute_since is not None:
            self._hears.pop(key, None)
            return None
        first = self._hears.setdefault(key, world.loop.now)
        return max(first, wire.quiet_since, book.ending_at or 0.0)


def _able_since(replica: Replica) -> float:
    """Since when it could have taken a dead one's runs over: it reaches the journal, and reads it without long breaks."""
    return max(replica.view.gone_until, replica.ownership.takeover.patient_until - 2 * LEASE)
