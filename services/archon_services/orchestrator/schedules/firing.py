"""Fires schedules: one loop in each replica; every replica may die at any moment.

A fire is stored before its run is submitted, under a request id that follows from the schedule and the time: whichever
replica submits it, and however often, there is one run. The claim of a schedule only keeps replicas from doing the same
work: their changes are fenced by the revision of the schedule.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol

from archon.background import BackgroundLoop
from archon.errors import ArchonError, DataLoss, UnknownSchedule
from archon.status import to_failure
from archon.telemetry import metrics
from archon_services.orchestrator.journal import EndedFire, Journal, TriggerRow
from archon_services.orchestrator.schedules.codec import KIND, schedule_from_row
from archon_services.orchestrator.schedules.decision import Decision
from archon_services.orchestrator.schedules.schedule import KEPT, Fire, FireState, Schedule
from archon_services.orchestrator.schedules.store import ScheduleStore

_log = logging.getLogger(__name__)

SCAN_INTERVAL: Final = 1.0
"""Seconds between two looks at the journal, at most."""

LEAST_INTERVAL: Final = 0.1
BATCH: Final = 50
"""Schedules that are claimed at once, and ended runs that are read at once."""

TIMEOUT: Final = 30.0
"""Seconds for the work on one schedule."""

HOLD: Final = 60.0
"""Seconds for which a schedule is left alone whose work has failed unexpectedly."""


class Submit(Protocol):
    """Submits runs of fires."""

    async def submit(self, schedule: Schedule, fire: Fire) -> str:
        """Returns the id of the run of a fire, the same for each call. Raises Archon's errors."""
        ...

    def is_final(self, error: ArchonError) -> bool:
        """Returns whether a refused submit cannot succeed later."""
        ...

    async def cancel(self, schedule: Schedule, run_id: str) -> None:
        """Requests that a run be cancelled; one that has ended is left unchanged. Raises Archon's errors."""
        ...


class ScheduleFiring:
    """Fires the schedules of `store`. `owner` returns the incarnation of this process."""

    def __init__(
        self,
        store: ScheduleStore,
        submit: Submit,
        owner: Callable[[], str],
    ) -> None:
        self._store = store
        self._submit = submit
        self._owner = owner
        self._woken = asyncio.Event()
        self._held: dict[tuple[str, str], float] = {}
        self._loop = BackgroundLoop("schedules", self._run, expected=(ArchonError, TimeoutError))
        store.on_change = self._woken.set

    @property
    def _journal(self) -> Journal:
        return self._store.journal

    def start(self) -> None:
        """Fires schedules until `close`. Call it once the incarnation has entered."""
        self._loop.start()

    async def close(self) -> None:
        """Ends the loop that fires. Idempotent."""
        await self._loop.close()

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            await self.scan()
            self._loop.report_progress()
            due = await self._journal.next_due(KIND) - self._store.now()
            pause = max(LEAST_INTERVAL, min(SCAN_INTERVAL, due))
            try:
                async with asyncio.timeout(pause):
                    await self._woken.wait()
            except TimeoutError:
                pass

    async def scan(self) -> None:
        """Takes in the ends of runs, and fires the schedules that are due. Raises the errors of the journal."""
        for ended in await self._journal.ended_fires(KIND, BATCH):
            await self._guarded(ended.tenant, ended.name, partial(self._end, ended))
        rows = await self._journal.claim_triggers(KIND, self._store.now(), self._owner(), BATCH)
        await asyncio.gather(*(self._guarded(row.tenant, row.name, partial(self._fire, row)) for row in rows))

    async def _guarded(self, tenant: str, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Works on one schedule, whose failure holds up no other."""
        if self._store.now() < self._held.get((tenant, name), 0.0):
            return
        self._held.pop((tenant, name), None)
        try:
            async with asyncio.timeout(TIMEOUT):
                await work()
        except UnknownSchedule:
            pass  # it was deleted
        except (ArchonError, TimeoutError) as error:
            _log.warning("the schedule %s of the tenant %s is tried again: %s", name, tenant, error)
        except Exception:  # noqa: BLE001 - it holds up no other schedule
            _log.exception("the schedule %s of the tenant %s is tried again in %g s", name, tenant, HOLD)
            self._held[tenant, name] = self._store.now() + HOLD

    async def _end(self, ended: EndedFire) -> None:
        state = _STATES.get(ended.state, FireState.FAILED)
        decision, _ = await self._store.change(
            ended.tenant, ended.name, lambda decision: decision.ended(ended.run_id, state)
        )
        _count(decision)

    async def _fire(self, row: TriggerRow) -> None:
        try:
            schedule = schedule_from_row(row)
        except DataLoss as error:
            _log.error("%s; it fires no more", error)
            unreadable = TriggerRow(row.tenant, row.kind, row.name, row.revision + 1, float("inf"), row.data)
            await self._journal.put_trigger(unreadable)
            return
        if schedule.ended and self._store.now() >= schedule.ended + KEPT:
            await self._journal.delete_trigger(row.tenant, KIND, row.name, row.revision)
            return
        decision, _ = await self._store.change(row.tenant, row.name, lambda decision: None, claim=self._owner())
        _count(decision)
        await self._cancel(decision)
        starting = [fire for fire in decision.fires_in(FireState.STARTING) if fire.due <= decision.now]
        results = await asyncio.gather(*(self._try(decision.schedule, fire) for fire in starting))
        fire_ids = [fire.fire_id for fire in starting]

        def take_in(later: Decision) -> None:
            for fire_id, result in zip(fire_ids, results, strict=True):
                if isinstance(result, str):
                    later.submitted(fire_id, result)
                else:
                    failure = to_failure(result).SerializeToString()
                    final, delay = self._submit.is_final(result), result.retry_delay or 0.0
                    later.refused(fire_id, result.message[:1_000], failure, final=final, delay=delay)

        later, _ = await self._store.change(row.tenant, row.name, take_in, always=True)
        _count(later)

    async def _cancel(self, decision: Decision) -> None:
        for run_id in decision.to_cancel():
            try:
                await self._submit.cancel(decision.schedule, run_id)
            except ArchonError as error:
                _log.info("run %s cannot be cancelled: %s", run_id, error, extra={"run_id": run_id})

    async def _try(self, schedule: Schedule, fire: Fire) -> str | ArchonError:
        """Returns the id of the run of a fire, or why there is none."""
        try:
            run_id = await self._submit.submit(schedule, fire)
        except ArchonError as error:
            _log.warning("schedule %s: the run of %s is refused: %s", schedule.name, fire.fire_id, error)
            return error
        _log.info("schedule %s: run %s is the one of %s", schedule.name, run_id, fire.fire_id, extra={"run_id": run_id})
        return run_id


_STATES: Final = {3: FireState.COMPLETED, 4: FireState.FAILED, 5: FireState.CANCELLED}
"""By the number of the run's state; a run that was deleted, or ended in another state, counts as failed."""


def _count(decision: Decision) -> None:
    if (recorder := metrics.recorder()) is not None:
        for fire in decision.fires:
            recorder.add(metrics.SCHEDULE_FIRES, (fire.state.name.lower(),))
