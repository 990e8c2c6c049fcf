"""Drives one run: feeds the engine, appends what it decides, and only then does what that makes necessary.

At most one append of a run is in flight; what comes meanwhile is decided together next. A step that can't be appended
leaves nothing behind: the state is folded again from the journal, and the inputs are decided anew.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count

from archon.api.orchestrator.v1 import run_pb2
from archon.errors import ArchonError, ResourceExhausted, Unavailable
from archon_mesh.core.run import Effect, RunState, apply, decide, open_effects, places
from archon_mesh.core.run import events as ev
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.codec import encode_inputs
from archon_services.orchestrator.convert import event_to_proto
from archon_services.orchestrator.convert.write import timestamp
from archon_services.orchestrator.dispatch.append_rows import publications, record_rows
from archon_services.orchestrator.journal import Append, Journal, NewRun, Outcome
from archon_services.orchestrator.ports import Clock, Delivery, Transport
from archon_services.orchestrator.runs.effects import execute_effects
from archon_services.orchestrator.runs.load import load_run
from archon_services.orchestrator.runs.placement import Placement
from archon_services.orchestrator.runs.receipts import acknowledge, acknowledge_late
from archon_services.orchestrator.runs.session_history import SessionHistory, TurnQueue
from archon_services.orchestrator.runs.timer import RunTimer

_log = logging.getLogger(__name__)

MAX_INBOX = 1_000
_ASKING = (inp.DelegateIn, inp.CancelDelegationIn, inp.BudgetRequestIn, inp.WorkingIn)
RETRY_DELAY = 0.2
MAX_RETRY_DELAY = 5.0

Publish = Callable[[str, list[run_pb2.RunEvent]], None]


class RunDriver:
    """Owns a run from its first event, or from a claim, to its last event or until it is deposed."""

    def __init__(
        self,
        run_id: str,
        *,
        clock: Clock,
        journal: Journal,
        transport: Transport,
        publish: Publish,
        state: RunState,
        epoch: int,
        first: Sequence[Delivery] = (),
        new: NewRun | None = None,
        turns: TurnQueue | None = None,
    ) -> None:
        """`state` is folded from the journal, `epoch` is the one that owns the run. With `new` the run isn't in the
        journal yet: its first step creates it."""
        self.run_id = run_id
        self.state = state
        self.epoch = epoch
        self.same_as = ""
        self._new = new
        self.deposed = False
        self.doubtful = False
        """True while `state` holds what was decided and isn't known to be durable: it is folded anew first."""
        self._clock = clock
        self._journal = journal
        self._transport = transport
        self._publish = publish
        self._batch_prefix = secrets.token_hex(8)
        self._batches = count(1)
        self._inbox: deque[Delivery] = deque(first)
        self._posted = {delivery.posted for delivery in first if delivery.posted}
        """Commands that have come already: they are brought again until they are taken."""
        self._wake = asyncio.Event()
        self._done: set[Effect] = set()
        self._placing = Placement(transport, self.wake)
        self._conversing = SessionHistory(journal, turns or TurnQueue(), transport.stateful, self.wake)
        self._alarm = RunTimer(clock, lambda: self.offer(Delivery(inp.Tick())))
        self.finished = asyncio.Event()

    def offer(self, delivery: Delivery) -> None:
        """Takes an input in. What agents say is bounded by the attempts that are live; of what callers ask, so much
        waits at most: above it ResourceExhausted."""
        if len(self._inbox) >= MAX_INBOX and isinstance(delivery.given, inp.Command):
            raise ResourceExhausted(f"too much is asked of run {self.run_id} at once", retry_delay=1.0)
        if delivery.posted in self._posted:
            return
        if delivery.posted:
            self._posted.add(delivery.posted)
        self._inbox.append(delivery)
        if not delivery.quiet:
            self._wake.set()

    def depose(self) -> None:
        """The run is somebody else's now."""
        self.deposed = True
        self._wake.set()

    def wake(self) -> None:
        """Something outside may have changed: look again."""
        self._wake.set()

    async def run(self) -> None:
        """Until the run has ended, or is somebody else's."""
        delay = RETRY_DELAY
        if self._inbox or self.state.submission is not None:
            self._wake.set()
        try:
            while not self._over():
                await self._wake.wait()
                self._wake.clear()
                if self._over():  # deposed meanwhile
                    break
                try:
                    await self.step()
                    delay = RETRY_DELAY
                except (ResourceExhausted, Unavailable) as error:
                    _log.warning("run %s: %s; trying again in %.1f s", self.run_id, error, delay)
                    await asyncio.sleep(delay)
                    delay = min(MAX_RETRY_DELAY, delay * 2)
                    self._wake.set()
        finally:
            self.call_off()
            self._leave()
            self.finished.set()

    def _over(self) -> bool:
        return (self.state.ended and not self.doubtful) or self.deposed

    def _leave(self) -> None:
        """What came too late is answered; what can't be judged here isn't."""
        if self._over():
            acknowledge_late(self._inbox, self.epoch, deposed=self.deposed)
        self._inbox.clear()

    async def step(self) -> None:
        """Decides what waits, appends, does. Raises ResourceExhausted or Unavailable; then nothing has happened."""
        if self.doubtful:
            await self._fold_again()
        if self.deposed:
            return
        await self._conversing.read()
        batch = list(self._inbox)
        self._inbox.clear()
        now = self._clock.now()
        base = self.state.last_seq
        decided: list[ev.Event] = []
        discarded: dict[int, str] = {}
        inputs = [self._conversing.marked(delivery.given) for delivery in batch] or [inp.Tick()]
        if batch and self._alarm.at and now >= self._alarm.at:
            inputs.append(inp.Tick())
        for number, given in enumerate(inputs):
            for event in self._decide(given, now):
                decided.append(event)
                if isinstance(event, ev.Discarded):
                    discarded[number] = event.reason
            if isinstance(given, _ASKING) and self._is_over(given.task_id, given.attempt):
                discarded[number] = "ABORTED"  # nobody will answer: whoever asked is to stop
        placed: dict[tuple[str, int], str] = {}
        written: list[run_pb2.RunEvent] | None = []
        try:
            self._place(now, inputs, decided, placed)
            if decided:
                written = await self._append(base, decided, inputs, now, batch)
        except BaseException as error:  # a caller that doesn't wait for its submit any more cancels it
            self._release(placed)
            self.doubtful |= bool(decided)
            if isinstance(error, ArchonError):
                await self._undo(batch)
            raise
        if written is None or self.deposed:
            self._release(placed)
        if written is None:
            await self._undo(batch)
            return
        if written:
            self._publish(self.run_id, written)
        elif posted := [delivery.posted for delivery in batch if delivery.posted]:
            await self._journal.drop(posted)
        acknowledge(batch, discarded, self.epoch)
        if not self.deposed:  # meanwhile: what is open is its new owner's to do, which may be this same process
            self._do(now)

    def _is_over(self, task_id: str, attempt: int) -> bool:
        """False for one that isn't known here: another owner, of whom this one hasn't heard, may have dispatched it."""
        task = self.state.tasks.get(task_id)
        return task is not None and (attempt < task.attempt or (attempt == task.attempt and not task.live))

    def _decide(self, given: inp.Input, now: float) -> list[ev.Event]:
        events = decide(self.state, given, now)
        for event in events:
            apply(self.state, event, now)
        return events

    def _place(
        self, now: float, inputs: list[inp.Input], decided: list[ev.Event], placed: dict[tuple[str, int], str]
    ) -> None:
        """Finds instances for the tasks that are ready, within the same step: one append holds a result and what it
        made possible. `placed` gets the instance per (task, attempt), whose slot is reserved."""
        for place in places(self.state):
            if place.not_before > now or self._conversing.waits(self.state, place):
                continue
            instance_id = self._placing.find(place)
            if instance_id is None:
                continue
            placed[place.task_id, place.attempt] = instance_id
            given = inp.SlotFound(place.task_id, instance_id, self._conversing.version(place))
            events = self._decide(given, now)
            if not any(type(event) is ev.Dispatched for event in events):
                self._transport.release(placed.pop((place.task_id, place.attempt)))
            if events:
                inputs.append(given)
                decided += events
        self._placing.pass_on()

    async def _append(
        self,
        base: int,
        decided: Sequence[ev.Event],
        inputs: Sequence[inp.Input],
        now: float,
        batch: Sequence[Delivery],
    ) -> list[run_pb2.RunEvent] | None:
        """The written events; None where the state was stale or the run is somebody else's."""
        at = timestamp(now)
        protos = [
            event_to_proto(event, run_id=self.run_id, seq=seq, time=at, epoch=self.epoch)
            for seq, event in enumerate(decided, base + 1)
        ]
        append = Append(
            run_id=self.run_id,
            epoch=self.epoch,
            last_seq=base,
            batch_id=f"{self._batch_prefix}{next(self._batches)}",
            time=now,
            events=tuple(proto.SerializeToString() for proto in protos),
            inputs=encode_inputs(inputs, now),
            state=int(self.state.state),
            ended=self.state.ended,
            records=record_rows(self.run_id, batch, self.state, decided),
            publications=publications(self.state, decided, base),
            taken=tuple(delivery.posted for delivery in batch if delivery.posted),
            turns=self._conversing.added(self.state, decided),
        )
        if self._new is not None:
            existing, created = await self._journal.create(self._new, append)
            self.same_as = "" if created else existing
            self._new = None
            return protos if created else None
        outcome = await self._journal.append(append)
        if outcome is Outcome.DEPOSED:
            _log.warning("run %s is somebody else's now", self.run_id)
            self.deposed = True
        if outcome is Outcome.CONFLICT:
            await self._conversing.look_again(self.state, decided)
        return protos if outcome is Outcome.DONE else None

    def _release(self, placed: dict[tuple[str, int], str]) -> None:
        for instance_id in placed.values():
            self._transport.release(instance_id)

    async def _undo(self, batch: Sequence[Delivery]) -> None:
        """Nothing happened: the state is what the journal says, inputs wait again."""
        self._inbox.extendleft(reversed(batch))
        if self.deposed or self._new is not None or self.same_as:
            return
        self.doubtful = True
        self._wake.set()
        await self._fold_again()

    async def _fold_again(self) -> None:
        self.state = await load_run(self._journal, self.run_id)
        self.doubtful = False
        if self.state.epoch > self.epoch:  # what is open is its new owner's to do
            self.deposed = True
        elif self.state.epoch == self.epoch:  # an append that nobody answered may be stored; a next may be long to come
            self._do(self._clock.now())

    def _do(self, looked_at: float) -> None:
        """Carries out what is open now and wasn't before."""
        effects = open_effects(self.state)
        told = self._conversing.history
        execute_effects(effects - self._done, self.state, self.run_id, self._clock.now(), self._transport, told)
        self._conversing.keep(self.state)
        self._done = effects
        self._alarm.set(effects, looked_at)

    def call_off(self) -> None:
        """It waits for nothing any more."""
        self._alarm.call_off()
        self._placing.call_off()
        self._conversing.call_off()
