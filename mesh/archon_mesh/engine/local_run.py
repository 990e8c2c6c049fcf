"""A run in this process: the host of the engine that needs no service.

This host does the orchestrator's work for one run: it decides inputs one after the other, folds their events, and
executes the effects that are open then. Attempts are coroutines of the caller's. With a `journal` every event is
durable before an effect of it leaves, and a later process goes on where this one ended.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from archon.clock import monotonic
from archon.errors import ArchonError
from archon_mesh.engine import RunState, Task, apply
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.engine import decide
from archon_mesh.engine.decide.human_input import question_id
from archon_mesh.engine.effects import CancelAttempt, GiveInput, Grant, attempt_effects, timers
from archon_mesh.engine.step_placement import hedges_of
from archon_mesh.engine.types import Amount, Failure, Payload, TaskState, quantize

_log = logging.getLogger(__name__)

GRACE: Final = 10.0
"""Seconds that cancelled attempts have to end."""

MIN_MEASURED: Final = 20
"""Completed attempts of a role from which on their time is known."""

INSTANCE: Final = "local"
"""The instance that all attempts are dispatched to."""

_CANCELLED: Final = Failure("CANCELLED", "CANCELLED", "the attempt was cancelled")

Execute = Callable[[RunState, Task], Awaitable[inp.ResultIn]]
"""Executes the current attempt of a task. Its errors end the run."""

Observe = Callable[[RunState, ev.Event], None]
"""Is called with each event and the state after it."""


class EventJournal(Protocol):
    """Keeps the events of a run."""

    def add(self, events: Sequence[ev.Event], now: float) -> None:
        """Notes the events of one decision. Raises ArchonError if they cannot be kept: then they have not happened."""
        ...

    def flush(self) -> None:
        """Makes the added events durable. Raises ArchonError if it is not; then the run must stop."""
        ...


Recover = Callable[[RunState, Task], inp.Input]
"""Returns the outcome of an attempt that was in progress when the process before ended."""


def attempt_lost(run: RunState, task: Task) -> inp.Input:
    """The attempt is lost with its process, and is made again."""
    message = "the process ended while the attempt was in progress"
    return inp.LostIn(task.task_id, task.attempt, Failure("UNAVAILABLE", "INSTANCE_LOST", message))


class LocalRun:
    """One run, from its submission, the first of the `inputs`, to its end.

    `execute` executes attempts, each in an asyncio task of its own. `may_start` says whether a ready task may be
    dispatched now; it is asked again after each event. `sleep` waits for the time of a retry.
    """

    def __init__(
        self,
        inputs: Sequence[inp.Input],
        execute: Execute,
        *,
        may_start: Callable[[RunState, Task], bool] = lambda run, task: True,
        decision: Callable[[RunState, Task], inp.DecisionIn | None] = lambda run, task: None,
        observe: Observe = lambda run, event: None,
        after_turn: Callable[[], Awaitable[None]] | None = None,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        journal: EventJournal | None = None,
        past: Sequence[tuple[ev.Event, float]] = (),
        recover: Recover = attempt_lost,
    ) -> None:
        """`decision` returns the outcome of the rule of a ready task; None if the task must be executed. `after_turn`
        is awaited when all that can be has been decided, before the run waits. `clock`: in seconds; with a `past` it
        goes on after the last of its times.

        `past` are the events of the journal, with their times, if the run was begun before: `inputs` are not decided
        then, and `recover` is asked about each attempt that was in progress. `observe` is called with past events too.
        """
        self.state = RunState()
        self._inputs = inputs
        self.over = False
        """Whether `run` has returned or raised."""

        self._execute = execute
        self._may_start = may_start
        self._decision = decision
        self._observe = observe
        self._after_turn = after_turn
        self._clock = clock
        self._sleep = sleep
        self._journal = journal
        self._recover = recover
        self._slept = 0.0
        """The seconds by which `sleep` was faster than the clock."""

        self._attempts: dict[asyncio.Task[inp.ResultIn], tuple[Task, int]] = {}
        """The task of each attempt under way, and the number of the attempt."""

        self._calls: dict[GiveInput | Grant, asyncio.Future[Any]] = {}
        """The effects that attempts under way wait for, because they are not open yet."""

        self._begun: set[str] = set()
        """The ids of the tasks whose current attempt has begun: an asyncio task may be cancelled before."""

        self._timer: asyncio.Task[None] | None = None
        self._due = 0.0
        self._looked = self._ticked = -math.inf
        """The times at which tasks were started, and due times decided about, last. Anything that comes due later needs
        a timer, even if it is due already when the timer is set."""

        self._changed = asyncio.Event()
        self._error: BaseException | None = None
        self._unstored: BaseException | None = None
        """Why the journal has not kept the last events."""
        for event, at in past:
            apply(self.state, event, at)
            observe(self.state, event)

    def give(self, given: inp.Input) -> Sequence[ev.Event]:
        """Decides an input, such as a command, and returns its events, which are durable. Raises the errors of the
        journal, also the one that has stopped the run."""
        if self._unstored is not None:
            raise self._unstored
        events = self._decide(given)
        self._flush()
        return events

    def _decide(self, given: inp.Input) -> Sequence[ev.Event]:
        """Decides an input. Its events are durable after `_flush`; no effect of them may leave before."""
        now = self._now()
        events = decide(self.state, given, now)
        if self._journal is not None and events:
            self._journal.add(events, now)
        for event in events:
            apply(self.state, event, now)
            self._observe(self.state, event)
        self._changed.set()
        return events

    def _flush(self) -> None:
        if self._journal is None:
            return
        try:
            self._journal.flush()
        except BaseException as error:
            # The state is ahead of the journal now: only what the journal has may go on.
            self._journal, self._unstored = None, error
            self.stop(error)
            raise

    def stop(self, error: BaseException) -> None:
        """Ends the run without deciding anything more: its attempts are cancelled, and `run` raises the error."""
        self._error = self._error or error
        self._changed.set()

    async def run(self) -> RunState:
        """Returns the state in which the run has ended. Raises the error of an attempt, or the one given to `stop`;
        then the run is still under way."""
        try:
            for given in self._inputs if self.state.submission is None else self._recovery():
                self._decide(given)
            while True:
                self._changed.clear()
                if self._error is not None:
                    raise self._error
                self._dispatch()
                self._flush()
                self._serve_attempts()
                if self._after_turn is not None:
                    await self._after_turn()
                if self.state.ended:
                    return self.state
                if not self._changed.is_set():
                    await self._wait()
        finally:
            try:
                self._keep(await self._cancel_all())
            finally:
                self._attempts.clear()
                self.over = True

    def _recovery(self) -> Sequence[inp.Input]:
        """The inputs by which a run goes on in another process. The attempts in progress have ended with the one
        before."""
        if self.state.ended:
            return ()
        claim = inp.Claim(self.state.owner, self.state.epoch + 1)
        return (claim, *(self._recover(self.state, task) for task in self.state.live_tasks()))

    @property
    def attempts(self) -> Sequence[Task]:
        """The tasks whose attempts are being executed."""
        return [task for task, _ in self._attempts.values()]

    @property
    def now(self) -> float:
        """The time by the clock of the run, in seconds."""
        return self._now()

    async def ask(self, request: inp.AskIn) -> Payload:
        """Asks a person for the current attempt of a task, and returns the answer as it was given. The attempt is
        cancelled if the engine refuses the question."""
        task = self.state.tasks[request.task_id]
        asked = question_id(task, request.input_id)
        return await self._call(request, GiveInput(*self._key(task), asked))

    async def reserve(self, request: inp.BudgetRequestIn) -> Amount | Failure | None:
        """Reserves more of the budget for the current attempt of a task. Returns the amount, or why it is refused."""
        task = self.state.tasks[request.task_id]
        granted: Amount | Failure | None = await self._call(request, Grant(*self._key(task), request.request_id))
        return granted

    def _key(self, task: Task) -> tuple[str, int, int, str]:
        return task.task_id, task.attempt, self.state.epoch, task.instance_id

    async def _call(self, request: inp.AskIn | inp.BudgetRequestIn, effect: GiveInput | Grant) -> Any:
        answered = asyncio.get_running_loop().create_future()
        self._calls[effect] = answered
        try:
            self._decide(request)  # durable before the run answers: its next turn begins with a flush
            return await answered
        finally:
            del self._calls[effect]

    def _dispatch(self) -> None:
        """Starts the ready tasks, as far as they may start now. Tasks that become ready start in the next turn."""
        if self._error is not None:
            return
        now = self._looked = self._now()
        for task in self._ready():
            if task.not_before <= now and (made := self._decision(self.state, task)) is not None:
                self.give(made)
            elif task.not_before <= now and self._may_start(self.state, task) and self.state.ready(task):
                expected = self._expected_seconds(task)
                self._decide(inp.SlotFound(task.task_id, INSTANCE, expected_seconds=expected))
                if task.live:
                    # It begins when this coroutine waits next, and `_flush` is called before.
                    self._begun.discard(task.task_id)
                    attempt = asyncio.create_task(self._attempt(task), name=f"task {task.label[:50]}")
                    self._attempts[attempt] = task, task.attempt

    def _expected_seconds(self, task: Task) -> float:
        """The time within which 95 % of the completed attempts of the task's role in this run ended, after which copies
        beside its step start; 0 if there is no copy, or fewer than MIN_MEASURED have completed."""
        if not hedges_of(self.state, task):
            return 0.0
        completed = [
            each.end_time - each.start_time
            for each in self.state.tasks.values()
            if each.role == task.role and each.attempt and each.state is TaskState.COMPLETED
        ]
        if len(completed) < MIN_MEASURED:
            return 0.0
        return quantize(sorted(completed)[math.ceil(0.95 * len(completed)) - 1])

    async def _attempt(self, task: Task) -> inp.ResultIn:
        self._begun.add(task.task_id)
        return await self._execute(self.state, task)

    def _serve_attempts(self) -> None:
        """Executes the effects that attempts under way are waiting for: orders to stop, answers, grants of budget."""
        if not self._attempts:
            return
        effects = attempt_effects(self.state)
        stopped = {(effect.task_id, effect.attempt) for effect in effects if type(effect) is CancelAttempt}
        for attempt, (task, number) in self._attempts.items():
            if (task.task_id, number) in stopped and not attempt.cancelling():
                attempt.cancel()
        for effect, answered in self._calls.items():
            if effect in effects and not answered.done():
                task = self.state.tasks[effect.task_id]
                if isinstance(effect, GiveInput):
                    answered.set_result(task.answers[effect.input_id])
                else:
                    answered.set_result(task.requests[effect.request_id])

    async def _wait(self) -> None:
        """Waits until an attempt has ended, something was given, or a time has come; then decides the results."""
        self._set_timer()
        changed = asyncio.create_task(self._changed.wait(), name="run changed")
        timer = {self._timer} if self._timer is not None else set()
        try:
            await asyncio.wait({*self._attempts, changed, *timer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
        if self._timer is not None and self._timer.done():
            self._timer = None
            self._slept += max(0.0, self._due - self._now())
            self._ticked = self._now()
            while self._decide(inp.Tick()):  # one step at a time fails at its due time
                pass
        for attempt in [each for each in self._attempts if each.done()]:
            self._ended(attempt, *self._attempts.pop(attempt))
            self._dispatch()

    def _ended(self, attempt: asyncio.Task[inp.ResultIn], task: Task, number: int) -> None:
        if attempt.cancelled():
            result = inp.ResultIn(task.task_id, number, TaskState.CANCELED, None, _CANCELLED)
        elif (error := attempt.exception()) is not None:
            self._error = self._error or error
            self._attempts[attempt] = task, number  # `_keep` says what has become of it
            return
        else:
            result = attempt.result()
        self._decide(result)

    def _set_timer(self) -> None:
        now = self._now()
        retry = min((task.not_before for task in self._ready() if task.not_before > self._looked), default=math.inf)
        limit = min((timer.at for timer in timers(self.state) if timer.at > self._ticked), default=math.inf)
        due = min(retry, limit)
        if self._timer is not None and due == self._due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._due = None, due
        if due < math.inf:
            sleep = self._sleep if retry <= limit else asyncio.sleep
            self._timer = asyncio.create_task(self._until(sleep, max(0.0, due - now)), name="timer of a run")

    async def _until(self, sleep: Callable[[float], Awaitable[object]], seconds: float) -> None:
        await sleep(seconds)

    def _ready(self) -> list[Task]:
        return [task for task in self.state.tasks.values() if self.state.ready(task)]

    def _now(self) -> float:
        return self._clock() + self._slept

    async def _cancel_all(self) -> Collection[asyncio.Task[inp.ResultIn]]:
        """Cancels the running attempts, waits for their end, and returns those that have ended."""
        if self._timer is not None:
            self._timer.cancel()
        for attempt in self._attempts:
            attempt.cancel()
        if not self._attempts:
            return ()
        done, left = await asyncio.wait(self._attempts, timeout=GRACE)
        for attempt in done:
            if not attempt.cancelled() and (error := attempt.exception()) is not None:
                _log.debug("%s ended with an error: %s", attempt.get_name(), error)
        for attempt in left:
            _log.warning("%s ignores that it was cancelled", attempt.get_name())
        return done

    def _keep(self, ended: Collection[asyncio.Task[inp.ResultIn]]) -> None:
        """Notes the results of attempts that were complete when the run was stopped, and that the cancelled ones were
        given back: to the next process they are no losses. One that goes on is lost."""
        if self._journal is None:
            return
        try:
            for attempt, (task, number) in self._attempts.items():
                if attempt not in ended or self.state.ended or number != task.attempt:
                    continue
                if not attempt.cancelled() and attempt.exception() is None:
                    self._decide(attempt.result())
                    continue
                recovered = self._recover if task.task_id in self._begun else attempt_lost
                if isinstance(lost := recovered(self.state, task), inp.LostIn):
                    self._decide(replace(lost, on_purpose=True))
            self._flush()
        except ArchonError as error:
            _log.warning("the end of attempts could not be noted: %s", error)
