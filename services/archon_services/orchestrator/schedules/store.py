"""Reads and changes schedules in the journal. A change is decided again if another replica was first."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, TypeVar

from archon.errors import DataLoss, Unavailable, UnknownSchedule
from archon_services.orchestrator.journal import Journal, TriggerRow
from archon_services.orchestrator.schedules.codec import (
    KIND,
    fire_from_row,
    fire_to_row,
    schedule_from_row,
    schedule_to_row,
)
from archon_services.orchestrator.schedules.decision import Decision
from archon_services.orchestrator.schedules.schedule import Fire, Schedule

_log = logging.getLogger(__name__)

TRIES: Final = 20
"""Changes of a schedule by others during one change of it, after which the call fails."""

T = TypeVar("T")


class ScheduleStore:
    """The schedules of a journal. `now` returns its wall time. Raises the errors of the journal."""

    def __init__(self, journal: Journal, now: Callable[[], float]) -> None:
        self.journal = journal
        self.now = now
        self.on_change: Callable[[], None] = lambda: None
        """Called after a change that may have made something due."""

    async def get(self, tenant: str, name: str) -> Schedule:
        """Returns a schedule. Raises UnknownSchedule."""
        return (await self._read(tenant, name))[0]

    async def page(self, tenant: str, after: str, limit: int) -> list[Schedule]:
        """Returns schedules with names above `after`, by name. One that cannot be read is left out."""
        rows = await self.journal.triggers(tenant, KIND, after, limit)
        return [schedule for row in rows if (schedule := _readable(row)) is not None]

    async def fires(self, tenant: str, name: str, before: int, limit: int) -> list[Fire]:
        """Returns fires, the newest first, with numbers below `before` unless that is 0. Raises UnknownSchedule."""
        await self._read(tenant, name)
        return [fire_from_row(row) for row in await self.journal.fires(tenant, KIND, name, before, limit)]

    async def fires_by_id(self, tenant: str, name: str, fire_ids: list[str]) -> list[Fire]:
        """Returns the fires of these ids that exist."""
        return [fire_from_row(row) for row in await self.journal.fires_by_id(tenant, KIND, name, fire_ids)]

    async def add(self, schedule: Schedule) -> bool:
        """Stores a new schedule. Returns False if its name is taken."""
        decision = Decision(schedule, self.now())
        decision.advance()
        row = schedule_to_row(decision.schedule, 1, decision.due())
        stored = await self.journal.put_trigger(row, [fire_to_row(fire) for fire in decision.fires])
        if stored:
            self.on_change()
        return stored

    async def change(
        self, tenant: str, name: str, decide: Callable[[Decision], T], *, claim: str = "", always: bool = False
    ) -> tuple[Decision, T]:
        """Changes a schedule by `decide`, which may be called several times, and lets time pass in it. The stored row
        is claimed by the incarnation `claim`, free if it is empty; with `always` it is stored even if nothing has
        changed. Raises UnknownSchedule, Unavailable if others change it all the time, and the errors of `decide`."""
        for attempt in range(TRIES):
            schedule, revision = await self._read(tenant, name)
            decision = Decision(schedule, self.now())
            result = decide(decision)
            decision.advance()
            if not decision.changed and not always:
                return decision, result
            row = schedule_to_row(decision.schedule, revision + 1, decision.due())
            if await self.journal.put_trigger(row, [fire_to_row(fire) for fire in decision.fires], claim):
                self.on_change()
                return decision, result
            await asyncio.sleep(0.002 * attempt)
        raise Unavailable(f"the schedule {name} changes all the time", retry_delay=1.0)

    async def delete(self, tenant: str, name: str, check: Callable[[Schedule], None]) -> None:
        """Deletes a schedule, unless `check` raises. Raises UnknownSchedule and Unavailable as `change` does."""
        for attempt in range(TRIES):
            schedule, revision = await self._read(tenant, name)
            check(schedule)
            if await self.journal.delete_trigger(tenant, KIND, name, revision):
                return
            await asyncio.sleep(0.002 * attempt)
        raise Unavailable(f"the schedule {name} changes all the time", retry_delay=1.0)

    async def _read(self, tenant: str, name: str) -> tuple[Schedule, int]:
        row = await self.journal.trigger(tenant, KIND, name)
        if row is None:
            raise UnknownSchedule(f"there is no schedule {name!r}", metadata={"schedule": name})
        return schedule_from_row(row), row.revision


def _readable(row: TriggerRow) -> Schedule | None:
    try:
        return schedule_from_row(row)
    except DataLoss as error:
        _log.error("%s; it is left out of the list", error)
        return None
