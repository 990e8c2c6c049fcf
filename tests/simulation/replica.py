"""An orchestrator process of the simulated mesh: runs, ownership, sessions, commands, watches, and its connection to
the journal. All of it is the real code, wired as the app wires it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import ArchonError, Unavailable
from archon_services.orchestrator.api.commands import Commands
from archon_services.orchestrator.ownership import Ownership
from archon_services.orchestrator.runs.clock.clocks import JournalClock
from archon_services.orchestrator.runs.manager import Runs
from archon_services.orchestrator.sessions import SessionPool
from archon_services.orchestrator.watch.forward import WatchForwarder
from tests.simulation.loop import Process
from tests.simulation.network import BEAT, SLIP
from tests.simulation.store import View

if TYPE_CHECKING:
    from tests.simulation.world import World

Batch = list[run_pb2.RunEvent]


class SimRelays(WatchForwarder):
    """Forwards watches to another replica over the simulated network."""

    def __init__(self, world: World, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._world = world

    async def _from_owner(self, run_id: str) -> None:
        row = await self._journal.run(run_id)
        address = self._owners.address_of(row.owner) if row is not None and not row.ended_at else ""
        if row is None or not address:
            return
        batches: asyncio.Queue[Batch | None] = asyncio.Queue()
        end = self._world.at(address).watch(run_id, row.last_seq, batches.put_nowait, relayed=True)
        try:
            while (batch := await batches.get()) is not None:
                self._runs.watchers.publish(run_id, batch)
        finally:
            end()


class Replica:
    """An orchestrator process from its start to its end; afterwards a new replica takes its slot."""

    def __init__(self, world: World, slot: int, name: str) -> None:
        self.world = world
        self.slot = slot
        self.name = name
        self.process = Process(name, world.loop)
        self.serves = False
        world.boots(self)
        self.view, journal = View.journal(world.store, world.dice, world.loop, self.process)
        clock = self.process.context.run(partial(JournalClock, journal, boot=f"slot-{slot}"))
        self._clock = clock
        self.runs = Runs(owner=world.new_owner(), clock=clock, journal=journal, new_id=world.new_id)
        self.ownership = Ownership(
            journal,
            self.runs,
            new_owner=world.new_owner,
            monotonic=clock.monotonic,
            jitter=lambda: world.dice.random.uniform(0, 0.05),
            address=name,
        )
        self.pool = SessionPool(
            orchestrator_id=self.runs.owner, inbox=self.runs, may_send=lambda: self.ownership.may_send()
        )
        relays = SimRelays(world, journal, self.runs, self.ownership)
        self.relays = relays
        self.commands = Commands(self.runs, journal, cast(Any, None), relays, clock.now)

    def __repr__(self) -> str:
        return self.name

    async def start(self) -> None:
        """Starts the replica and returns when it serves. Raises the journal's errors."""
        self.pool.update(self.world.registered.values())
        self.runs.start(self.pool)
        await self._clock.read()
        await self.ownership.start()
        self.runs.claimed()
        self.serves = True
        self.process.start(self._beat())

    async def stop(self) -> None:
        """Stops the replica as the app does on SIGTERM."""
        self.serves = False
        await self.ownership.stop()
        await self.runs.stop()
        await self.ownership.leave()
        await self.relays.close()
        await self.pool.close()

    async def _beat(self) -> None:
        """Runs the heartbeats of all streams. A late timer of its own restarts the count of silence."""
        loop = self.world.loop
        last = since = loop.now
        while True:
            await asyncio.sleep(BEAT)
            if loop.now - last > BEAT + SLIP:
                since = loop.now
            last = loop.now
            for wire in [candidate for candidate in self.world.network.wires if candidate.pair[0] == self.name]:
                wire._stream.beat(since)

    @property
    def up(self) -> bool:
        """Whether the replica answers callers."""
        return self.serves and not self.process.halted

    async def ask(self, work: Coroutine[Any, Any, Any], within: float = 5.0) -> Any:
        """Runs a caller's request. Raises its error, or Unavailable if it does not end in time."""
        task = self.process.start(work)
        done, _ = await asyncio.wait([task], timeout=within)
        if not done:
            task.cancel()
            raise Unavailable("no answer came")
        return task.result()

    def watch(
        self, run_id: str, after: int, deliver: Callable[[Batch | None], object], *, relayed: bool = False
    ) -> Callable[[], object]:
        """Watches a run: calls `deliver` with each batch after a short delay, and with None at the end. Returns a
        function that ends the watch."""
        loop, dice = self.world.loop, self.world.dice

        async def pump() -> None:
            arrives = 0.0
            try:
                request = pb.WatchRunRequest(run_id=run_id, after_seq=after)
                async with aclosing(self.commands.watch(request, relayed=relayed)) as batches:
                    async for data in batches:
                        batch = list(pb.WatchRunResponse.FromString(data).events)
                        arrives = max(arrives, loop.now + dice.random.random() * 0.01)
                        loop.call_at(arrives, deliver, batch, context=self.process.context)
            except ArchonError:
                pass
            finally:
                loop.call_at(max(arrives, loop.now), deliver, None)

        if not self.up:
            loop.call_later(1.0, deliver, None)
            return lambda: None
        return self.process.start(pump()).cancel
