"""The scheduler: in each turn it decides all runs that are ready, stores their steps in one commit, and then executes
their effects.

A run is ready if `wake` was called for it and none of its steps is being stored. A turn has four parts:

1. each ready run decides (`Driver.decide`): inputs to events to a Step, synchronously;
2. the journal commits all steps of the turn as one group, at once or behind one future;
3. each run finishes its step (`Driver.done`): publishes it to watchers, sends receipts, executes effects;
4. a run that was woken in the meantime is ready again.

Nothing leaves the process before part 3. Work that must wait (loading a run again, reading a conversation, a retry)
runs outside the turns, in one coroutine of the run, and wakes it at its end.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Final, Protocol

from archon_services.orchestrator.journal import Journal, Step, StepResult
from archon_services.orchestrator.observability.commits import CommitMeasurement
from archon_services.orchestrator.runs.ready_runs import ReadyRuns, equal_weight

_log = logging.getLogger(__name__)

LONGEST_WAIT: Final = 0.003
"""Seconds that turns wait for further runs if FULL_LOAD runs are under way and the journal commits at once: a commit
costs about as much for many steps as for one."""

FULL_LOAD: Final = 16
"""Runs under way from which on a turn waits LONGEST_WAIT. Below, the wait falls with the square of their number: a run
that is alone does not wait."""

LATELY: Final = 0.1
"""Seconds within which a run must have had a turn to count as under way."""

SHORTEST_WAIT: Final = 0.0005
"""Seconds below which a turn does not wait at all: timers of an event loop are no finer than a millisecond."""

MAX_TURN: Final = 256
"""Runs decided in one turn; heartbeats and frames get their share of the loop between turns."""


class Driver(Protocol):
    """A run, as the scheduler sees it. The three flags belong to the scheduler."""

    tenant: str

    queued: bool
    in_flight: bool
    woken: bool

    @property
    def over(self) -> bool:
        """Whether it takes no more turns."""
        ...

    def decide(self) -> Step | None:
        """Decides the queued inputs. Returns the step to store, or None if there is none."""
        ...

    def done(self, result: StepResult) -> None:
        """Finishes the step that `decide` returned."""
        ...

    def fail(self, error: Exception) -> None:
        """Gives the run up after an unexpected exception."""
        ...


class _UnderWay:
    """The runs that are under way: they had a turn in the current span of LATELY seconds or in the one before, and have
    not ended. Runs after each other count as one, however fast they are."""

    def __init__(self) -> None:
        self._began = 0.0
        self._now: set[Driver] = set()
        self._before: set[Driver] = set()

    def add(self, drivers: Sequence[Driver], now: float) -> None:
        self._pass(now)
        self._now.update(drivers)
        self._before.difference_update(drivers)

    def remove(self, driver: Driver) -> None:
        self._now.discard(driver)
        self._before.discard(driver)

    def count(self, now: float) -> int:
        self._pass(now)
        return len(self._now) + len(self._before)

    def _pass(self, now: float) -> None:
        if now - self._began < LATELY:
            return
        self._before = self._now if now - self._began < 2 * LATELY else set()
        self._now = set()
        self._began = now


class Scheduler:
    """Belongs to one event loop. Turns run in the context in which the scheduler was made, not in a caller's."""

    def __init__(
        self,
        journal: Journal,
        commits: CommitMeasurement | None = None,
        weight: Callable[[str], float] = equal_weight,
        seal: Callable[[Sequence[Step]], None] = lambda steps: None,
    ) -> None:
        """`commits` measures the commits; None: nothing does. `weight` returns the weight of a tenant. `seal` seals the
        steps of a turn before they are committed."""
        self._seal = seal
        self._journal = journal
        self._commits = commits
        self._context = copy_context()
        self._ready = ReadyRuns[Driver](weight)
        self._armed = False
        self._under_way = _UnderWay()
        self._stopped = False

    def wake(self, driver: Driver) -> None:
        """Makes a run ready, or marks it if one of its steps is being stored."""
        if driver.queued:
            return
        if driver.in_flight:
            driver.woken = True
            return
        driver.queued = True
        self._ready.add(driver)
        if not self._armed and not self._stopped:
            self._arm()

    @property
    def ready(self) -> int:
        """How many runs wait for a turn."""
        return len(self._ready)

    def stop(self) -> None:
        """Ends all turns. Steps that are being stored stay unfinished."""
        self._stopped = True
        self._ready.clear()

    def _arm(self) -> None:
        self._armed = True
        loop = asyncio.get_running_loop()
        wait = self._wait(loop.time()) if self._journal.inline else 0.0
        if wait:
            loop.call_later(wait, self._turn, context=self._context)
        else:
            loop.call_soon(self._turn, context=self._context)

    def _wait(self, now: float) -> float:
        """Returns the seconds that the next turn waits for further runs."""
        wait = LONGEST_WAIT * min(1.0, self._under_way.count(now) / FULL_LOAD) ** 2
        return wait if wait >= SHORTEST_WAIT else 0.0

    def _turn(self) -> None:
        self._armed = False
        if self._stopped:
            return
        now = asyncio.get_running_loop().time()
        ready = self._ready.take(MAX_TURN, now)
        self._under_way.add(ready, now)
        drivers: list[Driver] = []
        steps: list[Step] = []
        for driver in ready:
            driver.queued = False
            if driver.in_flight:  # it was woken while it decided its last step
                driver.woken = True
                continue
            try:
                step = driver.decide()
            except Exception as error:  # noqa: BLE001 - an error in one run harms no other
                driver.fail(error)
                continue
            if step is None and driver.over:
                self._under_way.remove(driver)
            if step is not None:
                driver.in_flight = True
                drivers.append(driver)
                steps.append(step)
        if steps:
            self._commit(drivers, steps)
        if self._ready and not self._armed:
            self._arm()

    def _commit(self, drivers: Sequence[Driver], steps: Sequence[Step]) -> None:
        if self._journal.inline or all(step.new is None for step in steps):
            self._commit_group(drivers, steps)
            return
        for creates in (True, False):  # a store may create runs and append to others at the same time
            group = [number for number, step in enumerate(steps) if (step.new is not None) is creates]
            if group:
                self._commit_group([drivers[number] for number in group], [steps[number] for number in group])

    def _commit_group(self, drivers: Sequence[Driver], steps: Sequence[Step]) -> None:
        began = 0.0 if self._commits is None else time.monotonic()
        try:
            self._seal(steps)
            results = self._journal.commit(steps)
        except Exception as error:  # noqa: BLE001 - the runs are loaded again; the scheduler goes on
            self._measure(began, len(steps))
            self._failed(drivers, error)
            return
        if isinstance(results, list):
            self._measure(began, len(steps), results)
            self._done(drivers, results)
        else:
            results.add_done_callback(lambda future: self._committed(drivers, future, began), context=self._context)

    def _committed(self, drivers: Sequence[Driver], future: asyncio.Future[list[StepResult]], began: float) -> None:
        if self._stopped or future.cancelled():
            return
        if (error := future.exception()) is not None:
            self._measure(began, len(drivers))
            self._failed(drivers, error)
            return
        self._measure(began, len(drivers), future.result())
        self._done(drivers, future.result())

    def _measure(self, began: float, steps: int, results: Sequence[StepResult] | None = None) -> None:
        if self._commits is None:
            return
        if results is None:
            self._commits.failed(time.monotonic() - began, steps)
        else:
            self._commits.done(time.monotonic() - began, results)

    def _failed(self, drivers: Sequence[Driver], error: BaseException) -> None:
        for driver in drivers:
            driver.in_flight = False
            self._under_way.remove(driver)
            driver.fail(error if isinstance(error, Exception) else RuntimeError(repr(error)))

    def _done(self, drivers: Sequence[Driver], results: Sequence[StepResult]) -> None:
        for driver, result in zip(drivers, results, strict=True):
            driver.in_flight = False
            try:
                driver.done(result)
            except Exception as error:  # noqa: BLE001 - an error in one run harms no other
                driver.fail(error)
            if driver.over:
                self._under_way.remove(driver)
            if driver.woken:
                driver.woken = False
                self.wake(driver)
