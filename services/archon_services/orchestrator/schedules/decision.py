"""Decides about one schedule: a pure function of its state, the time, and the outcomes of its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from archon_services.orchestrator.schedules.schedule import (
    KEPT,
    MAX_RUNNING,
    MAX_STARTING,
    MAX_WAITING,
    OPEN,
    CatchUp,
    Fire,
    FireState,
    Overlap,
    Schedule,
)
from archon_services.orchestrator.schedules.times import delay_of, next_time, time_text, times_between

MAX_CATCH_UP: Final = 1_000
"""Times that passed and are looked at one by one."""

PROMPT: Final = 5.0
"""Seconds within which a time counts as fired when it came, although a busy replica has looked later."""

LATE: Final = 60.0
"""Seconds after which a time has passed for the policy SKIP."""

MAX_DELAY: Final = 60.0
"""Seconds between two tries to submit a run, unless the failure says more."""

JUST_BEFORE: Final = 1e-6
"""Seconds between a time and the cursor after which it is the next one."""

CANCEL_INTERVAL: Final = 1.0
"""Seconds until runs are cancelled again that have not ended."""


class Decision:
    """Changes to a schedule at a time (wall seconds); `schedule` is its state after them."""

    def __init__(self, schedule: Schedule, now: float) -> None:
        self.before = schedule
        self.schedule = schedule
        self.now = now
        self._open = {fire.fire_id: fire for fire in schedule.open_fires}
        self._changed: dict[str, Fire] = {}

    @property
    def changed(self) -> bool:
        """Whether there is anything to store."""
        return bool(self._changed) or self.schedule != self.before

    @property
    def fires(self) -> list[Fire]:
        """The fires that have changed, in order."""
        return sorted(self._changed.values(), key=lambda fire: fire.number)

    def fires_in(self, *states: FireState) -> list[Fire]:
        """Returns the open fires in these states, oldest first."""
        return sorted((fire for fire in self._open.values() if fire.state in states), key=lambda fire: fire.number)

    # Time -----------------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Fires the times that have come, starts fires that need not wait any more, and ends the schedule after its
        last one."""
        if not (self.schedule.paused or self.schedule.ended):
            self._pass_times()
        self._start_waiting()
        self._end()

    def _pass_times(self) -> None:
        schedule, policies = self.schedule, self.schedule.policies
        found, more = times_between(schedule.times, schedule.cursor, self.now, MAX_CATCH_UP)
        if not found:
            return
        last = found[-1] + delay_of(schedule.times, schedule.uid, found[-1])
        come = [(planned, planned) for planned in found[:-1]]  # a delay ends before the next time
        if last <= self.now:
            come.append((found[-1], last))
        if not come:
            return
        self._replace(cursor=come[-1][0])
        patience = min(policies.window, LATE) if policies.catch_up is CatchUp.SKIP else policies.window
        within = [planned for planned, at in come if self.now - at <= patience]
        if policies.catch_up is CatchUp.LATEST:
            prompt = [planned for planned, at in come if self.now - at <= PROMPT]
            within = prompt if len(prompt) > 1 else within[-1:]
        missed = [planned for planned, _ in come[: len(come) - len(within)]]
        self._miss(missed, more=more)
        for planned in within:
            if self._is_full():
                break
            if (fire_id := time_text(planned)) not in self._open:  # a caller may have fired it
                self._fire(self._new(fire_id, planned), policies.overlap)

    def _miss(self, missed: Sequence[float], *, more: bool) -> None:
        if not missed:
            return
        text = "no replica fired it in time" if len(missed) == 1 else f"from {time_text(missed[0])} on no replica fired"
        fire = self._new(time_text(missed[-1]), missed[-1])
        self._put(replace(fire, state=FireState.MISSED, times=len(missed), times_more=more, reason=text))
        self._replace(missed=self.schedule.missed + len(missed))

    def _is_full(self) -> bool:
        """Whether the schedule has as many runs as it may, with those to come of open fires."""
        most, schedule = self.schedule.times.max_runs, self.schedule
        to_come = len(self.fires_in(FireState.WAITING, FireState.STARTING))
        return bool(most) and schedule.runs + to_come >= most

    def _end(self) -> None:
        schedule = self.schedule
        if schedule.paused or schedule.ended or self.fires_in(FireState.WAITING, FireState.STARTING):
            return
        if self._is_full() or next_time(schedule.times, schedule.cursor) is None:
            self._replace(ended=self.now)

    # Fires ----------------------------------------------------------------------------------------------------------

    def trigger(self, fire_id: str, planned: float, overlap: Overlap, identity: str) -> Fire:
        """Adds a fire that a caller asks for."""
        self._fire(replace(self._new(fire_id, planned), manual=True, identity=identity), overlap)
        return self._changed[fire_id]

    def _new(self, fire_id: str, planned: float) -> Fire:
        self._replace(number=self.schedule.number + 1)
        return Fire(fire_id, self.schedule.number, planned, FireState.WAITING)

    def _fire(self, fire: Fire, overlap: Overlap) -> None:
        running = self.fires_in(FireState.STARTING, FireState.RUNNING)
        waiting = self.fires_in(FireState.WAITING)
        if overlap is Overlap.CANCEL_OTHER:
            for each in waiting:
                self._skip(each, "a later fire takes its place")
        elif overlap is Overlap.SKIP and (running or waiting):
            return self._skip(fire, "a run of the schedule is in progress")
        elif overlap is Overlap.BUFFER_ONE and waiting:
            return self._skip(fire, "another fire waits already")
        elif overlap is Overlap.ALLOW_ALL and len(running) + len(waiting) >= MAX_RUNNING:
            return self._skip(fire, f"{MAX_RUNNING} runs of the schedule are in progress")
        elif len(waiting) >= MAX_WAITING:
            return self._skip(fire, f"{MAX_WAITING:,} fires wait already")
        self._put(replace(fire, overlap=overlap))
        return None

    def _skip(self, fire: Fire, reason: str) -> None:
        self._put(replace(fire, state=FireState.SKIPPED, reason=reason))
        self._replace(skipped=self.schedule.skipped + 1)

    def _start_waiting(self) -> None:
        for fire in self.fires_in(FireState.WAITING):
            if len(self.fires_in(FireState.STARTING)) >= MAX_STARTING:
                return
            if self.schedule.paused and not fire.manual:
                continue
            if fire.overlap is Overlap.ALLOW_ALL or not self.fires_in(FireState.STARTING, FireState.RUNNING):
                started = replace(fire, state=FireState.STARTING, due=self.now, since=self.now)
                self._put(replace(started, request=self.schedule.run))

    def to_cancel(self) -> list[str]:
        """Returns the runs in progress that a fire waits for that cancels them."""
        waits = any(fire.overlap is Overlap.CANCEL_OTHER for fire in self.fires_in(FireState.WAITING))
        return [fire.run_id for fire in self.fires_in(FireState.RUNNING)] if waits else []

    # Runs -----------------------------------------------------------------------------------------------------------

    def submitted(self, fire_id: str, run_id: str) -> None:
        """The run of a fire exists."""
        if (fire := self._starting(fire_id)) is not None:
            running = replace(fire, state=FireState.RUNNING, run_id=run_id, started=self.now, request=b"")
            self._put(replace(running, failure=b"", reason=""))
            self._replace(runs=self.schedule.runs + 1)

    def refused(self, fire_id: str, message: str, failure: bytes, *, final: bool, delay: float = 0.0) -> None:
        """The run of a fire was refused: `final`, or for at least `delay` seconds. Then it is tried again as long as
        the window of the schedule is open."""
        if (fire := self._starting(fire_id)) is None:
            return None
        tries = fire.tries + 1
        due = self.now + max(delay, min(MAX_DELAY, 2.0 ** min(tries - 1, 10)))
        fire = replace(fire, tries=tries, reason=message, failure=failure)
        if not final and due <= fire.since + self.schedule.policies.window:
            return self._put(replace(fire, due=due))
        self._put(replace(fire, state=FireState.REFUSED, request=b""))
        self._replace(refused=self.schedule.refused + 1)
        self._failed(f"the run of {fire.fire_id} was refused: {message}")
        return None

    def ended(self, run_id: str, state: FireState) -> None:
        """The run of a fire has ended."""
        for fire in self.fires_in(FireState.RUNNING):
            if fire.run_id == run_id:
                self._put(replace(fire, state=state))
                if state is FireState.FAILED:
                    self._replace(failed=self.schedule.failed + 1)
                    self._failed(f"run {run_id} failed")

    def _failed(self, reason: str) -> None:
        if self.schedule.policies.pause_on_failure and not self.schedule.paused:
            self._replace(paused=True, pause_reason=reason[:1_000])

    def _starting(self, fire_id: str) -> Fire | None:
        fire = self._open.get(fire_id)
        return fire if fire is not None and fire.state is FireState.STARTING else None

    # State ----------------------------------------------------------------------------------------------------------

    def edit(self, change: Callable[[Schedule], Schedule]) -> None:
        """Replaces the schedule by `change` of it; its open fires stay."""
        self.schedule = replace(change(self.schedule), open_fires=self.schedule.open_fires)

    def redefine(self, **fields: object) -> None:
        """Changes `fields` of the schedule that its callers write. Times that have come fire as they were; with
        other times the schedule goes on with the next one from now."""
        self.advance()
        before = self.schedule
        self._replace(**fields)
        if self.schedule.times != before.times:
            self._replace(cursor=self._cursor_after(before), ended=0.0)

    def _cursor_after(self, before: Schedule) -> float:
        """Returns the cursor of a schedule whose times have changed: now, or right before a time that its jitter still
        delays, if the new times have it, too."""
        if before.paused or before.ended:
            return self.now
        delayed, times = next_time(before.times, before.cursor), self.schedule.times
        if delayed is None or delayed > self.now:
            return self.now
        cursor = delayed - JUST_BEFORE
        return cursor if times_between(times, cursor, self.now, 2) == ([delayed], False) else self.now

    def _replace(self, **fields: object) -> None:
        self.schedule = replace(self.schedule, **fields)  # type: ignore[arg-type]

    def _put(self, fire: Fire) -> None:
        self._changed[fire.fire_id] = fire
        if fire.state in OPEN:
            self._open[fire.fire_id] = fire
        else:
            self._open.pop(fire.fire_id, None)
        self._replace(open_fires=tuple(sorted(self._open.values(), key=lambda each: each.number)))

    def due(self) -> float | None:
        """Returns when the schedule must be looked at next (wall seconds), None if nothing is due by itself."""
        return min(self._dues(), default=None)

    def _dues(self) -> Iterable[float]:
        schedule = self.schedule
        yield from (fire.due for fire in self.fires_in(FireState.STARTING))
        if self.to_cancel():
            yield self.now + CANCEL_INTERVAL
        if schedule.ended:
            if not schedule.open_fires:
                yield schedule.ended + KEPT
        elif not schedule.paused and (planned := next_time(schedule.times, schedule.cursor)) is not None:
            yield planned + delay_of(schedule.times, schedule.uid, planned)
