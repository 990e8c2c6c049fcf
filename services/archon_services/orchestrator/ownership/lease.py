"""Whose runs are whose: this process's incarnation beats, watches the others, and claims what is nobody's.

No clock decides but this process's own monotonic one, and only between two reads that succeeded: a clock that jumps, or
a store that is gone for a while, deposes nobody.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from archon.errors import ArchonError
from archon_services.orchestrator.journal import CommandRow, Journal, OwnerRow, RunRow
from archon_services.orchestrator.ports import Clock, SystemClock

_log = logging.getLogger(__name__)

LEASE: Final = 3.0
"""Seconds without a beat after which an incarnation is buried."""

BEAT: Final = 1.0
BEAT_TIMEOUT: Final = 2.0
LOOK: Final = 0.25
"""Seconds between two looks at the others, and at the commands that wait."""

LOOK_AFTER: Final = 5.0
"""Seconds between two looks for runs that are ours though we don't hold them."""

MARGIN: Final = 0.5
SLIP: Final = 0.5
JITTER: Final = 0.1
BATCH: Final = 100

REVISION: Final = 1
"""The newest form of events that this code folds."""


class Held(Protocol):
    """The runs of this process."""

    owner: str

    @property
    def room(self) -> int:
        """How many more runs it can carry."""
        ...

    def holds(self, run_id: str) -> bool: ...

    async def take_over(self, row: RunRow, commands: Sequence[CommandRow], clock: Clock) -> None:
        """Goes on with a run that was just claimed, the commands that wait for it first; its time goes by `clock`."""
        ...

    def command(self, row: CommandRow) -> None:
        """Brings a command to its run; the same one may come again."""
        ...

    def release_all(self) -> None:
        """Every run is somebody else's now: stop, and tell nobody."""
        ...


@dataclass(slots=True)
class _Seen:
    beat: int
    since: float


class Ownership:
    """Background loops from `start` to `leave`. Where the store isn't shared nobody else lives, and nothing beats."""

    def __init__(
        self,
        journal: Journal,
        held: Held,
        *,
        new_owner: Callable[[], str],
        monotonic: Callable[[], float],
        jitter: Callable[[], float] = lambda: random.uniform(0, JITTER),
        address: str = "",
    ) -> None:
        """`jitter` gives seconds between two claims, so that replicas don't all claim at once."""
        self.address = address
        self._jitter = jitter
        self._journal = journal
        self._held = held
        self._new_owner = new_owner
        self._monotonic = monotonic
        self._lease_end = 0.0
        self._others: dict[str, OwnerRow] = {}
        self._seen: dict[str, _Seen] = {}
        self._patient_until = 0.0
        self._tasks: list[asyncio.Task[None]] = []
        self._hearing: asyncio.Task[None] | None = None

    def may_send(self) -> bool:
        """Whether what is said in the name of a run may leave: the lease was renewed lately enough."""
        return not self._journal.shared or self._monotonic() < self._lease_end - MARGIN

    def address_of(self, owner: str) -> str:
        """Where another incarnation is reached; empty where it isn't known to live."""
        row = self._others.get(owner)
        return row.address if row is not None else ""

    async def start(self) -> int:
        """Enters, and takes up what is nobody's. Returns how many runs. Raises what the journal raises."""
        await self._enter(self._held.owner)
        claimed = await self._claim()
        loops = [self._look_after()]
        if self._journal.shared:
            loops += [self._beat(), self._look()]
            self._journal.listen(self._heard)
        self._tasks = [asyncio.create_task(loop, name="ownership") for loop in loops]
        return claimed

    async def stop(self) -> None:
        """Ends the loops; nothing of any run changes by that. Idempotent."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks = []
        if self._hearing is not None:
            self._hearing.cancel()
            await asyncio.wait([self._hearing])

    async def leave(self) -> None:
        """Gives up all runs, once nothing works on them any more: others may go on with them at once."""
        try:
            async with asyncio.timeout(LEASE):
                await self._journal.leave(self._held.owner)
        except (ArchonError, TimeoutError) as error:
            _log.info("left without saying so: %s", error)

    async def _enter(self, owner: str) -> None:
        sent = self._monotonic()
        await self._journal.enter(OwnerRow(owner, self.address, REVISION, 0))
        self._held.owner, self._lease_end = owner, sent + LEASE

    async def _beat(self) -> None:
        pause = BEAT
        while True:
            await asyncio.sleep(pause)
            sent, pause = self._monotonic(), BEAT
            try:
                async with asyncio.timeout(BEAT_TIMEOUT):
                    alive = await self._journal.beat(self._held.owner, self.address)
                if alive:
                    self._lease_end = sent + LEASE
                    continue
                _log.warning("%s was taken for dead; its runs are others' now", self._held.owner)
                await self._enter(self._new_owner())
                self._held.release_all()  # what was taken on in the old name until now is others', too
            except (ArchonError, TimeoutError) as error:
                _log.warning("the lease could not be renewed: %s", error)
                pause = LOOK

    async def _look(self) -> None:
        last = self._monotonic()
        while True:
            await asyncio.sleep(LOOK)
            now = self._monotonic()
            if now - last > LOOK + SLIP:
                self._forget()  # it was we who were away
            last = now
            try:
                async with asyncio.timeout(LEASE):
                    await self._look_once()
            except (ArchonError, TimeoutError) as error:
                self._forget()
                _log.info("the other orchestrators can't be looked at now: %s", error)

    def _forget(self) -> None:
        """Counts begin anew, and the others get twice as long: they may be back a little later than we."""
        self._seen.clear()
        self._patient_until = self._monotonic() + 2 * LEASE

    async def _look_once(self) -> None:
        rows = await self._journal.living()
        if self._held.owner not in {row.owner for row in rows}:
            return  # buried: the next beat finds it out; what is still ours by name isn't to be claimed again and again
        now = self._monotonic()
        self._others = {row.owner: row for row in rows if row.owner != self._held.owner}
        self._seen = {owner: seen for owner, seen in self._seen.items() if owner in self._others}
        for row in self._others.values():
            seen = self._seen.get(row.owner)
            if seen is None or seen.beat != row.beat:
                self._seen[row.owner] = _Seen(row.beat, now)
            elif (
                now - seen.since >= LEASE
                and now >= self._patient_until
                and await self._journal.expire(row.owner, row.beat)
            ):
                _log.warning("%s is dead: no beat for %.1f s", row.owner, now - seen.since)
                del self._seen[row.owner]
        await self._claim()
        await self._commands()

    def _heard(self, owner: str) -> None:
        """Somebody has posted a command for a run of that owner. One that comes while it is looked is found by the next
        look."""
        if owner == self._held.owner and self._tasks and (self._hearing is None or self._hearing.done()):
            self._hearing = asyncio.create_task(self._look_for_commands(), name="commands")

    async def _look_for_commands(self) -> None:
        try:
            async with asyncio.timeout(LEASE):
                await self._commands()
        except (ArchonError, TimeoutError) as error:
            _log.info("commands can't be looked for now: %s", error)

    async def _commands(self) -> None:
        for command in await self._journal.posted(self._held.owner):
            if self._held.holds(command.run_id):
                self._held.command(command)
            elif (run := await self._journal.run(command.run_id)) is None or run.ended_at:
                await self._journal.drop([command.row_id])

    async def _claim(self) -> int:
        """Everything that is nobody's, as long as there is room. Returns how many runs."""
        claimed = 0
        while (room := min(BATCH, self._held.room)) > 0:
            if self._journal.shared:
                await asyncio.sleep(self._jitter())
            rows = await self._journal.claim_some(self._held.owner, room, REVISION)
            await self._take_over(rows)
            claimed += len(rows)
            if len(rows) < room:
                break
        return claimed

    async def _take_over(self, rows: Sequence[RunRow]) -> None:
        if not rows:
            return
        posted = await self._journal.posted(self._held.owner)
        # The owner before may have lived on another machine: what both know is what time it is there.
        clock = SystemClock(await self._journal.now())
        for row in rows:
            if row.owner != self._held.owner:
                continue  # claimed in a name that was buried meanwhile: it is anybody's
            await self._held.take_over(row, [command for command in posted if command.run_id == row.run_id], clock)

    async def _look_after(self) -> None:
        """Takes up what is nobody's, or ours though we don't hold it: a run whose first append was durable though its
        outcome wasn't heard, or whose driver failed."""
        while True:
            await asyncio.sleep(LOOK_AFTER)
            try:
                await self._claim()
                owner = self._held.owner
                for run_id in await self._journal.open_runs(owner):
                    if self._held.holds(run_id) or owner != self._held.owner:
                        continue
                    row = await self._journal.claim(run_id, owner)
                    await self._take_over([row] if row is not None else [])
            except ArchonError as error:
                _log.warning("the journal can't be looked through now: %s", error)
