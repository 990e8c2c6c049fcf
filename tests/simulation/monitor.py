"""Checks the mesh periodically: live states equal the durable ones (V6), every run has an owner, which will wake it in
time (V7), and no agent works on canceled tasks (V10)."""

from __future__ import annotations

import asyncio

from archon_mesh.engine import Timer, open_effects
from archon_services.orchestrator.ownership.lease import LEASE
from tests.simulation.check import Book
from tests.simulation.replica import Replica
from tests.simulation.world import World

LOOK = 0.5
HELD_WITHIN = LEASE + 5.0
WIDE = 4.0
"""Additional seconds for the interval between checks and for slow claims."""

STOPPED_WITHIN = 1.0


class Monitor:
    """A background loop that records violations in `check.violation`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._not_held: dict[str, float] = {}
        self._reachable: dict[tuple[str, str], float] = {}

    async def watch(self) -> None:
        """Checks the mesh every LOOK seconds until it is canceled."""
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
                check.must("V6", same, f"the live state of {run_id} differs from its journal")
                if driver._executed_seq == driver.state.last_seq:
                    times = [effect.at for effect in open_effects(book.state) if isinstance(effect, Timer)]
                    rings = 0.0 < driver._timer.at <= min(times, default=driver._timer.at)
                    check.must("V7", not times or rings, f"{run_id} is due at {times}, its timer is {driver._timer.at}")
            return
        able = min((_able_since(replica) for replica in world.serving), default=world.loop.now)
        gone = max(world.troubled_at, world.store.gone_until)
        since = max(self._not_held.setdefault(run_id, world.loop.now), gone, able)
        waited = world.loop.now - since
        check.must("V7", waited <= HELD_WITHIN + WIDE, f"no replica has held {run_id} for {waited:.1f} s")

    def _worked_on(self) -> None:
        world = self._world
        for agent in world.agents.values():
            if agent.process.halted:
                self._reachable = {key: since for key, since in self._reachable.items() if key[1] != agent.instance_id}
                continue
            for attempt in agent.server.attempts:
                book = world.check.books.get(attempt.ref.run_id)
                if not attempt.working or book is None or book.ending_at is None:
                    continue
                since = self._reachable_since(attempt.ref.run_id, book, agent.instance_id)
                if since is None:
                    continue
                waited = world.loop.now - since
                world.check.must(
                    "V10",
                    waited <= STOPPED_WITHIN + 2 * LOOK,
                    f"{agent.instance_id} works on {attempt.ref.task_id} {waited:.1f} s after the end could reach it",
                )

    def _reachable_since(self, run_id: str, book: Book, instance_id: str) -> float | None:
        """Returns the time since which the run's owner could have stopped the agent's work. None if they have no
        working stream, the owner may not send, or it does not know yet that the end is durable."""
        world = self._world
        holder = self._holder(run_id, book)
        key = run_id, instance_id
        wire = next(
            (
                candidate
                for candidate in world.network.wires
                if holder is not None and candidate.pair == (holder.name, instance_id) and not candidate.ended.done()
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
            self._reachable.pop(key, None)
            return None
        first = self._reachable.setdefault(key, world.loop.now)
        return max(first, wire.quiet_since, book.ending_at or 0.0)


def _able_since(replica: Replica) -> float:
    """Returns the time since which the replica could take over runs: it reaches the journal without long breaks."""
    return max(replica.view.gone_until, replica.ownership.takeover.patient_until - 2 * LEASE)
