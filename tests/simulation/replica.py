"""One orchestrator process of the simulated mesh: its own runs, ownership, sessions, orders, watches, and its own way to
the journal. Everything in it is the real code; it is wired as the app wires it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import ArchonError, Unavailable
from archon_services.orchestrator.api.commands import Commands
from archon_services.orchestrator.ownership import Ownership
from archon_services.orchestrator.ports import SystemClock
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
    """Reaches another replica over the simulated network."""

    def __init__(self, world: World, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._world = world

    async def _from_owner(self, run_id: str) -> None:
        row = await self._journal.run(run_id)
        address = self._owners.address_of(row.owner) if row is not None and not row.ended_at else ""
        if row is None or not address:
            return
        told: asyncio.Queue[Batch | None] = asyncio.Queue()
        end = self._world.at(address).watch(run_id, row.last_seq, told.put_nowait, relayed=True)
        try:
            while (batch := await told.get()) is not None:
                self._runs.watchers.publish(run_id, batch)
        finally:
            end()


class Replica:
    """From its start to its death or its leaving; after that another one takes its slot."""

    def __init__(self, world: World, slot: int, name: str) -> None:
        self.world = world
        self.slot = slot
        self.name = name
        self.process = Process(name, world.loop)
        self.serves = False
        world.boots(self)
        self.view, journal = View.journal(world.store, world.dice, world.loop, self.process)
        clock = self.process.context.run(SystemClock, world.true_wall)
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
        """Until it serves. Raises what the journal raises."""
        self.pool.update(self.world.registered.values())
        self.runs.start(self.pool)
        await self.ownership.start()
        self.runs.claimed()
        self.serves = True
        self.process.start(self._beat())

    async def stop(self) -> None:
        """SIGTERM: as the app takes itself down."""
        self.serves = False
        await self.ownership.stop()
        await self.runs.stop()
        await self.ownership.leave()
        await self.relays.close()
        await self.pool.close()

    async def _beat(self) -> None:
        """The beats of all streams, for each of which a slip of the own timer starts the count again."""
        loop = self.world.loop
        last = since = loop.now
        while True:
            await asyncio.sleep(BEAT)
            if loop.now - last > BEAT + SLIP:
                since = loop.now
            last = loop.now
            for wire in [one for one in self.world.network.wires if one.pair[0] == self.name]:
                wire._stream.beat(since)

    @property
    def up(self) -> bool:
        """Whether a caller is answered."""
        return self.serves and not self.process.halted

    async def ask(self, work: Coroutine[Any, Any, Any], within: float = 5.0) -> Any:
        """A caller's request. Raises Unavailable where no answer comes in time, and what the request raises."""
        task = self.process.start(work)
        done, _ = await asyncio.wait([task], timeout=within)
        if not done:
            task.cancel()
            raise Unavailable("no answer came")
        return task.result()

    def watch(
        self, run_id: str, after: int, told: Callable[[Batch | None], object], *, relayed: bool = False
    ) -> Callable[[], object]:
        """`told` gets batches, each a moment after it was said, and None at the end. Returns what ends it."""
        loop, dice = self.world.loop, self.world.dice

        async def pump() -> None:
            arrives = 0.0
            try:
                request = pb.WatchRunRequest(run_id=run_id, after_seq=after)
                async with aclosing(self.commands.watch(request, relayed=relayed)) as batches:
                    async for data in batches:
                        batch = list(pb.WatchRunResponse.FromString(data).events)
                        arrives = max(arrives, loop.now + dice.random.random() * 0.01)
                        loop.call_at(arrives, told, batch, context=self.process.context)
            except ArchonError:
                pass
            finally:
                loop.call_at(max(arrives, loop.now), told, None)

        if not self.up:
            loop.call_later(1.0, told, None)
            return lambda: None
        return self.process.start(pump()).cancel
