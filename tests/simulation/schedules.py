"""Replicas that fire schedules over one journal, in virtual time. Each call of the journal takes a while before and after
its effect; replicas are killed, halted and started at random moments, and what the dead had claimed is claimed by
others."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Any, Final

from archon.errors import ArchonError, ResourceExhausted, Unavailable
from archon_services.orchestrator.journal import Journal, MemoryJournal, OwnerRow, SameRequest
from archon_services.orchestrator.schedules import ScheduleFiring, ScheduleStore
from archon_services.orchestrator.schedules.schedule import (
    CatchUp,
    Fire,
    FireState,
    Overlap,
    Owner,
    Policies,
    Schedule,
)
from archon_services.orchestrator.schedules.times import (
    MAX_TIME,
    Cron,
    Every,
    Times,
    Timing,
    next_time,
    time_text,
    times_between,
)
from tests.fixtures.journal import creation, new_run, step
from tests.simulation.loop import Process, VirtualLoop

START: Final = 1_700_000_000.0
LEASE: Final = 3.0
SECONDS: Final = 400.0
TIMES: Final[tuple[Timing, ...]] = (
    Every(7.0),
    Every(60.0, 5.0),
    Cron("*/2 * * * *"),
    Cron("*/5 * * * *", "Europe/Berlin"),
)


class SlowJournal:
    """The journal as a replica sees it: each call takes up to `delay` seconds before its effect, and after it."""

    def __init__(self, journal: Journal, chance: random.Random, delay: float) -> None:
        self._journal = journal
        self._chance = chance
        self._delay = delay
        self.shared = True

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._journal, name)

        async def slow(*arguments: Any, **named: Any) -> Any:
            await asyncio.sleep(self._chance.uniform(0, self._delay))
            if self._chance.random() < 0.01:
                raise Unavailable("the database cannot be reached")
            result = await call(*arguments, **named)
            await asyncio.sleep(self._chance.uniform(0, self._delay))
            return result

        return slow


@dataclass
class World:
    """A journal, its runs, and the replicas that fire."""

    seed: int
    overlap: Overlap
    journal: MemoryJournal = field(default_factory=lambda: MemoryJournal(shared=True))
    submits: Counter[str] = field(default_factory=Counter)
    """Submits by request id, in whatever replica, also those of which no answer was heard."""
    in_progress: Counter[str] = field(default_factory=Counter)
    most: Counter[str] = field(default_factory=Counter)
    """The most runs of a schedule that were in progress at once."""
    numbers: int = 0
    edits: int = 0
    delay: float = 0.2
    """Seconds that a call of the journal takes, before and after its effect."""
    paused_at: float = 0.0
    """When the schedules were paused, at the end (wall seconds)."""

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self.replicas: dict[str, Process] = {}

    def now(self) -> float:
        return START + self.loop.now

    # Submits --------------------------------------------------------------------------------------------------------

    async def submit(self, schedule: Schedule, fire: Fire) -> str:
        await asyncio.sleep(self.chance.uniform(0, 0.2))
        if self.chance.random() < 0.05:
            raise ResourceExhausted("too many runs", retry_delay=1.0)
        request_id = schedule.run_request_id(fire.fire_id)
        self.submits[request_id] += 1
        self.numbers += 1
        run_id = f"run-{self.numbers}"
        [result] = self.journal.commit([creation(new_run(run_id, request_id, fire.request), time=self.now())])
        if isinstance(result, SameRequest):
            run_id = result.run_id
        else:
            self.in_progress[schedule.name] += 1
            self.most[schedule.name] = max(self.most[schedule.name], self.in_progress[schedule.name])
            seconds = self.chance.expovariate(1 / 15)
            self.loop.call_later(seconds, self._end, schedule.name, run_id, context=self.outside)
        await asyncio.sleep(self.chance.uniform(0, 0.2))
        return run_id

    def is_final(self, error: ArchonError) -> bool:
        return False

    async def cancel(self, schedule: Schedule, run_id: str) -> None:
        await asyncio.sleep(self.chance.uniform(0, 0.2))
        self._end(schedule.name, run_id, state=5)

    def _end(self, name: str, run_id: str, state: int = 0) -> None:
        row = self.journal._rows[run_id]
        if not row.ended_at:
            ended = state or self.chance.choice([3, 3, 3, 4])
            self.journal.commit([step(run_id, 1, ended=True, state=ended, time=self.now())])
            self.in_progress[name] -= 1

    # Replicas -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Starts a replica."""
        self.numbers += 1
        name = f"replica-{self.numbers}"
        process = self.replicas[name] = Process(name, self.loop)
        await self.journal.enter(OwnerRow(name, "", 1, 0))
        store = ScheduleStore(SlowJournal(self.journal, self.chance, self.delay), self.now)
        firing = ScheduleFiring(store, self, lambda: name)
        process.start(_kept(firing))

    async def strike(self) -> None:
        """Kills or halts a replica at random; others expire it after its lease."""
        name = self.chance.choice(sorted(self.replicas))
        process = self.replicas[name]
        if self.chance.random() < 0.6:
            process.kill()
            del self.replicas[name]
            self.loop.call_later(LEASE, self._expire, name, context=self.outside)
        else:
            process.halt()
            seconds = self.chance.uniform(0, 2 * LEASE)
            if seconds > LEASE:
                self.loop.call_later(LEASE, self._expire, name, context=self.outside)
            self.loop.call_later(seconds, process.go_on, context=self.outside)

    def _expire(self, name: str) -> None:
        self.journal._living.pop(name, None)

    async def edit(self, store: ScheduleStore, schedule: Schedule) -> None:
        """Changes a schedule beside what the replicas do: its note, and the end of its times, which stays far away."""
        self.edits += 1
        times = replace(schedule.times, end=MAX_TIME - self.edits)
        fields = {"note": str(self.edits), **({"times": times} if self.edits % 2 else {})}
        await store.change("default", schedule.name, lambda decision: decision.redefine(**fields))

    async def run(self, schedules: list[Schedule]) -> None:
        """Fires for some minutes under faults, and a while without any."""
        self.outside = copy_context()
        store = ScheduleStore(self.journal, self.now)
        for schedule in schedules:
            assert await store.add(schedule)
        await self.start()
        end = self.loop.now + SECONDS
        while self.loop.now < end:
            await asyncio.sleep(self.chance.expovariate(1 / 8))
            await self.edit(store, self.chance.choice(schedules))
            if len(self.replicas) < 4 and self.chance.random() < 0.6:
                await self.start()
            elif self.replicas:
                await self.strike()
        for process in self.replicas.values():
            process.go_on()
        await self.start()
        await asyncio.sleep(60)
        self.paused_at = self.now()
        for schedule in schedules:
            await store.change("default", schedule.name, _paused)
        await asyncio.sleep(180)


async def _kept(firing: ScheduleFiring) -> None:
    firing.start()
    await asyncio.Event().wait()


def _paused(decision: Any) -> None:
    decision.edit(lambda schedule: replace(schedule, paused=True))


async def simulate(seed: int, overlap: Overlap) -> World:
    """Returns a world after a course, checked: there is one run for each time, and no other."""
    world = World(seed, overlap)
    policies = Policies(overlap, CatchUp.ALL, window=3_600)
    schedules = [
        Schedule("default", f"s{number}", f"uid{number}", Times(timing, jitter=number * 1.0), b"run", Owner("ann"),
                 START, START, START, policies=policies)
        for number, timing in enumerate(TIMES)
    ]  # fmt: skip
    await world.run(schedules)
    for schedule in schedules:
        await _check(world, schedule)
    return world


async def _check(world: World, before: Schedule) -> None:
    store = ScheduleStore(world.journal, world.now)
    after = await store.get("default", before.name)
    runs = _runs(world, before.uid)
    fires = await store.fires("default", before.name, 0, 2_000)
    planned, _ = times_between(before.times, START, after.cursor, 5_000)
    following = next_time(before.times, after.cursor)
    assert following is not None and following + before.times.jitter > world.paused_at - 5.0, "it has stopped firing"
    ids = [time_text(time) for time in planned]
    by_id = {fire.fire_id: fire for fire in fires}
    assert len(by_id) == len(fires) and set(by_id) <= set(ids), "a fire for a time that the schedule does not have"
    assert set(ids[-len(fires) :]) == set(by_id), "a time was left out"
    assert not [fire for fire in fires if fire.state is FireState.STARTING], "a fire was left behind"
    started = {before.run_request_id(fire.fire_id): fire.run_id for fire in fires if fire.run_id}
    assert set(started.items()) <= set(runs.items()), "a fire names another run than the one of its request"
    assert after.runs == len(runs), "a run that no fire has submitted"
    if world.overlap is not Overlap.ALLOW_ALL:
        assert world.most[before.name] <= 1, "two runs at once"
    else:
        assert len(runs) == len(planned), "not one run for each time"


def _runs(world: World, uid: str) -> dict[str, str]:
    """Returns the runs of a schedule by their request ids."""
    requests = world.journal._requests.items()
    return {key[1]: value[1] for key, value in requests if key[1].startswith(f"schedule/{uid}/")}
