"""Work lists of the simulated mesh: a memory service that fails, members that take items; and lines 37 to 39 of
docs/durability.md, which each write to a list, and what its members were told, have to hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from archon.agent.local_values import LocalChange, LocalValue, LocalValues
from archon.agent.shared import SharedConnection
from archon.agent.task import TaskContext
from archon.agent.work_item import DONE, FREE, HELD, Entry, WorkItem, entry_of
from archon.agent.work_list import WorkList
from archon.errors import ArchonError, DeadlineExceeded, LeaseExpired, Unavailable
from tests.simulation.check import must
from tests.simulation.faults import Dice

if TYPE_CHECKING:
    from tests.simulation.loop import VirtualLoop
    from tests.simulation.world import World

LEASE: Final = 1.2
"""Seconds of a claim in the simulation: agents freeze for longer at times."""

WAIT: Final = 4.0
"""Seconds that a member waits for an item."""

LIST: Final = "items"


@dataclass(slots=True)
class ItemWrite:
    """A write to an item of a list, in the order of the memory service."""

    at: float
    before: Entry | None
    after: Entry
    since: float
    """The time of the write before."""


@dataclass(slots=True)
class Seen:
    """The news of members about one list."""

    added: set[str] = field(default_factory=set)
    """The items whose addition was confirmed."""
    done: dict[str, Any] = field(default_factory=dict)
    """The results that were confirmed, by item."""
    ends: list[tuple[float, float, str]] = field(default_factory=list)
    """When a member asked for an item and found the list at its end, when it was told, and its task."""


class StoredList(LocalValues):
    """A list in the memory service, and the writes to it."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop
        self.writes: dict[str, list[ItemWrite]] = {}
        self.ids: list[tuple[float, tuple[str, ...]]] = []
        self.seen = Seen()

    @override
    async def set(self, key: str, value: Any, expected_version: int | None = None) -> int:
        current = await self.get_value(key)
        version = await super().set(key, value, expected_version)
        now = self._loop.now
        if key == "list":
            self.ids.append((now, tuple(value)))
            return version
        after, id_ = entry_of(value), key.removeprefix("item/")
        assert after is not None
        writes = self.writes.setdefault(id_, [])
        before = None if current is None else entry_of(current.value)
        writes.append(ItemWrite(now, before, after, writes[-1].at if writes else now))
        return version


class MemoryService(SharedConnection):
    """The memory service of the simulated mesh, which agents call over a slow network. Lists survive its death."""

    def __init__(self, dice: Dice, loop: VirtualLoop) -> None:
        super().__init__()
        self._dice = dice
        self._loop = loop
        self._away_until = 0.0
        self.lists: dict[str, StoredList] = {}

    @override
    def values(self, run_id: str) -> ListOverNetwork:
        return ListOverNetwork(self, self.lists.setdefault(run_id, StoredList(self._loop)))

    async def hop(self) -> None:
        """A message to the service or back. Raises Unavailable while it is away."""
        await asyncio.sleep(self._dice.delay(0.005))
        if self._dice.fault("memory service killed", 0.002):
            self._away_until = self._loop.now + self._dice.random.uniform(0.5, 5.0)
        if self._loop.now < self._away_until:
            raise Unavailable("the memory service is away")

    def fault(self, name: str, chance: float) -> None:
        """Raises Unavailable with this probability."""
        if self._dice.fault(name, chance):
            raise Unavailable("the memory service is away")


class ListOverNetwork:
    """The calls of an agent to one list."""

    def __init__(self, service: MemoryService, stored: StoredList) -> None:
        self._service = service
        self.stored = stored

    async def get_value(self, key: str) -> LocalValue | None:
        await self._service.hop()
        value = await self.stored.get_value(key)
        await self._service.hop()
        return value

    async def set(self, key: str, value: Any, expected_version: int | None = None) -> int:
        await self._service.hop()
        self._service.fault("write to a list not made", 0.01)
        version = await self.stored.set(key, value, expected_version)
        self._service.fault("answer to a write of a list lost", 0.01)
        await self._service.hop()
        return version

    async def delete(self, key: str, expected_version: int | None = None) -> bool:
        raise AssertionError("nothing deletes the items of a list")

    async def list_values(self, prefix: str = "") -> Sequence[LocalValue]:
        await self._service.hop()
        values = await self.stored.list_values(prefix)
        await self._service.hop()
        return values

    async def watch(self, prefix: str = "") -> AsyncGenerator[LocalChange, None]:
        async for change in self.stored.watch(prefix):
            await asyncio.sleep(0.002)
            yield change


async def serve(task: TaskContext, world: World) -> None:
    """Takes items of the list of its run, as a handler does: ends some, fails some, adds others, and forgets some."""
    dice, loop = world.dice, world.loop
    work = task.work(LIST)
    work._clock, work._lease = loop.time, LEASE
    stored = world.memory.lists[f"{task.run_id}/work/{LIST}"]
    try:
        await _add(work, stored, {str(number): number for number in range(1, 3 + sum(map(ord, task.run_id)) % 5)})
        while dice.random.random() > 0.05:
            asked = loop.now
            try:
                item = await work.take(WAIT)
            except DeadlineExceeded:
                dice.fired["no item was free in time"] += 1
                return
            if item is None:
                stored.seen.ends.append((asked, loop.now, task.task_id))
                dice.fired["list found at its end"] += 1
                return
            await asyncio.sleep(dice.delay(0.3, "slow work"))
            if len(item.id) < 3 and dice.random.random() < 0.1:
                await _add(work, stored, {f"{item.id}+": 0})
                dice.fired["item added by a member"] += 1
            await _end(work, stored, item, task, dice)
    except ArchonError:
        dice.fired["member gave up"] += 1


async def _add(work: WorkList, stored: StoredList, items: dict[str, int]) -> None:
    await work.add(items, tries=4)
    stored.seen.added.update(items)


async def _end(work: WorkList, stored: StoredList, item: WorkItem, task: TaskContext, dice: Dice) -> None:
    if dice.fault("item forgotten by its member", 0.05):
        return
    result = f"{task.task_id}/{task.attempt}/{item.tries}"
    try:
        if dice.random.random() < 0.15:
            await work.fail(item, "it cannot be done")
            dice.fired["item failed"] += 1
            return
        await work.done(item, result)
    except LeaseExpired:
        dice.fired["late result refused"] += 1
        return
    known = stored.seen.done.setdefault(item.id, result)
    must("V38", known == result, f"both {known} and {result} were confirmed as the result of {item.id}")
    dice.fired["item done"] += 1


def validate_work(world: World) -> None:
    """Checks lines 37 to 39 on all lists."""
    for scope, stored in world.memory.lists.items():
        for id_, writes in stored.writes.items():
            for write in writes:
                _validate_write(f"{id_} of {scope}", write, world.dice)
        _validate_results(scope, stored)
        _validate_ends(scope, stored)


def _validate_write(name: str, write: ItemWrite, dice: Dice) -> None:
    """V37, V38: who may write an item after whom."""
    before, after = write.before, write.after
    if before is None:
        return
    must("V38", not before.has_ended, f"{name} was {before.state}, and is {after.state} again")
    if before.state != HELD or before.claim == after.claim:
        return
    must("V37", after.state == HELD, f"{name} was ended by {after.claim}, and {before.claim} has it")
    assert before.claim is not None
    assert after.claim is not None
    if before.claim.member == after.claim.member:
        return
    is_later = before.claim.task_id == after.claim.task_id and after.claim.attempt > before.claim.attempt
    is_over = write.at - write.since >= LEASE
    must("V37", is_later or is_over, f"{name} of {before.claim} was given to {after.claim} at {write.at:.3f}")
    dice.fired["item taken over by a later attempt" if is_later else "item taken over after its lease"] += 1


def _validate_results(scope: str, stored: StoredList) -> None:
    """V38: what was confirmed to a member is stored. V39: so is what was added."""
    ids = stored.ids[-1][1] if stored.ids else ()
    must("V39", stored.seen.added <= set(ids), f"items of {scope} are lost: {stored.seen.added - set(ids)}")
    must("V39", len(set(ids)) == len(ids), f"an item of {scope} is twice in its list: {ids}")
    must("V39", set(ids) <= stored.writes.keys(), f"items of {scope} have no value")
    for id_, result in stored.seen.done.items():
        last = stored.writes[id_][-1].after
        must("V38", (last.state, last.result) == (DONE, result), f"{id_} of {scope} is {last}, {result} was confirmed")


def _validate_ends(scope: str, stored: StoredList) -> None:
    """V39: a list is at its end when all items have ended that it had when the member asked."""
    for asked, told, task_id in stored.seen.ends:
        listed = [ids for at, ids in stored.ids if at <= asked]
        for id_ in listed[-1] if listed else ():
            states = [write.after for write in stored.writes[id_] if write.at <= told]
            is_over = bool(states) and states[-1].has_ended
            state = states[-1].state if states else FREE
            must("V39", is_over, f"{task_id} found {scope} at its end at {told:.3f}, and {id_} is {state}")
