"""The driver of one run: decides its inputs, and finishes each step once it is durable.

At most one step of a run is being stored; inputs that arrive in the meantime are decided together next. A step that
cannot be stored leaves nothing behind: the state is loaded again from the journal, and its inputs are decided anew.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Protocol

from archon.errors import ArchonError, Internal, ResourceExhausted, Unavailable
from archon.principal import DEFAULT_TENANT
from archon_mesh.engine import (
    RunState,
    Timer,
    effects_of,
    open_effects,
)
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.types import TaskState
from archon_services.orchestrator.journal import Journal, NewRun, Outcome, Step, StepResult
from archon_services.orchestrator.ports import Delivery, DispatchGate, RunClock, Transport
from archon_services.orchestrator.runs.clock.timer import RunTimer
from archon_services.orchestrator.runs.creation import Creation
from archon_services.orchestrator.runs.effects import EffectExecutor
from archon_services.orchestrator.runs.limits import MAX_JOURNAL_BYTES
from archon_services.orchestrator.runs.receipts import acknowledge, acknowledge_late
from archon_services.orchestrator.runs.run_inbox import RunInbox
from archon_services.orchestrator.runs.scheduler import Scheduler
from archon_services.orchestrator.runs.states.load import load_linked_run, load_run_since
from archon_services.orchestrator.runs.turn.chain import RunChain
from archon_services.orchestrator.runs.turn.decider import Decider, has_newer
from archon_services.orchestrator.runs.turn.decision import Decision
from archon_services.orchestrator.runs.turn.placement import Placement
from archon_services.orchestrator.runs.turn.session_history import SessionHistory, TurnQueue
from archon_services.orchestrator.runs.turn.step import build_step

_log = logging.getLogger(__name__)

RETRY_DELAY: Final = 0.2
MAX_RETRY_DELAY: Final = 5.0


class Observer(Protocol):
    """The manager, as a driver sees it."""

    def stored(self, step: Step, events: Sequence[ev.Event]) -> None:
        """A step with these events is durable."""
        ...

    def finished(self, driver: RunDriver) -> None:
        """The run has ended, another replica has taken it over, or its driver failed."""
        ...

    def foreign(self, run_id: str, task_id: str, instance_id: str) -> None:
        """An instance sent a frame about an attempt that was not dispatched to it; the frame does not count."""
        ...


@dataclass(frozen=True, slots=True)
class Drive:
    """The shared parts of all drivers of a process. `wall` returns wall seconds, `publishes`: whether answers are
    published in a shared memory."""

    journal: Journal
    transport: Transport
    scheduler: Scheduler
    observer: Observer
    turns: TurnQueue
    wall: Callable[[], float]
    publishes: bool = True
    max_bytes: int = MAX_JOURNAL_BYTES
    """Bytes of a run's journal above which the run fails."""
    gate: DispatchGate | None = None
    _prefix: str = field(default_factory=lambda: secrets.token_hex(8))
    _batches: count[int] = field(default_factory=lambda: count(1))

    def batch_id(self) -> str:
        """Returns the id of a step, which no other step of any process has."""
        return f"{self._prefix}{next(self._batches)}"


class RunDriver:
    """Drives a run from its first event, or from a claim, until it has ended or another replica has taken it over.

    `state` is loaded from the journal, `epoch` is the one under which this replica owns the run. With `new` the run is
    not in the journal yet: its first step creates it.
    """

    __slots__ = (
        "_chain",
        "_clock",
        "_decider",
        "_decision",
        "_delay",
        "_drive",
        "_effects",
        "_executed_seq",
        "_finished",
        "_history",
        "_inbox",
        "_owner_checked",
        "_placement",
        "_task",
        "_timer",
        "_waiters",
        "creation",
        "deposed",
        "doubtful",
        "durable_seq",
        "epoch",
        "failed",
        "in_flight",
        "queued",
        "run_id",
        "size",
        "state",
        "tenant",
        "woken",
    )  # fmt: skip

    def __init__(
        self,
        run_id: str,
        drive: Drive,
        *,
        clock: RunClock,
        state: RunState,
        epoch: int,
        first: Iterable[Delivery] = (),
        new: NewRun | None = None,
        size: int = 0,
        released: bool = False,
        link: bytes = b"",
        tenant: str = DEFAULT_TENANT,
    ) -> None:
        """`released`: the owner before left the run on purpose. `link` is the link of its last step, `tenant` the
        run's."""
        self.run_id = run_id
        self.tenant = tenant
        self.state = state
        self.epoch = epoch
        self.creation = Creation(new)
        self.deposed = False
        self.doubtful = False
        """True while `state` holds events that may not be durable: it is loaded again before the next decision."""

        self.durable_seq = state.last_seq
        """The last event that is known to be durable."""

        self.queued = self.in_flight = self.woken = False
        self._drive = drive
        self._clock = clock
        self._decision: Decision | None = None
        self._delay = RETRY_DELAY
        self._executed_seq = -1
        """Effects of events up to this one have been executed by this driver; -1: none."""

        self._owner_checked = False
        """Whether this replica was found to own the run since the inbox was last taken."""

        self._finished = False
        self.size = size
        """Bytes of its journal."""

        self.failed = False
        """Whether the driver gave up after an unexpected exception."""

        self._chain = RunChain(run_id, link)
        self._waiters: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None
        self._inbox = RunInbox(run_id, first)
        if size > drive.max_bytes:
            self._inbox.put(Delivery(inp.JournalFull(size, drive.max_bytes)))
        transport = drive.transport if tenant in ("", DEFAULT_TENANT) else drive.transport.of_tenant(tenant)
        placement = self._placement = Placement(run_id, transport, self.wake, drive.gate)
        self._history = SessionHistory(drive.journal, drive.turns, transport.stateful, self.wake)
        self._effects = EffectExecutor(run_id, transport, self._history.turns, released=released)
        self._timer = RunTimer(clock, self._tick)
        self._decider = Decider(transport, placement, self._history, self._timer, self._foreign)

    # Inputs -----------------------------------------------------------------------------------------------------

    def offer(self, delivery: Delivery) -> None:
        """Queues an input. Frames of agents are bounded by the live attempts; raises ResourceExhausted if too many
        commands of callers are queued."""
        if self._finished:
            acknowledge_late([delivery], self.epoch, deposed=self.deposed)
            return
        if self._inbox.put(delivery) and not delivery.quiet:
            self.wake()

    def wake(self) -> None:
        """Has the scheduler look at this run."""
        if not self._finished:
            self._drive.scheduler.wake(self)

    def depose(self) -> None:
        """Another replica has taken over the run."""
        self.deposed = True
        self.wake()

    def now(self) -> float:
        """Returns the time of the run's clock in wall seconds."""
        return self._clock.now()

    def idle(self) -> bool:
        """Whether no input is queued."""
        return not self._inbox

    @property
    def inputs(self) -> int:
        """How many inputs wait to be decided."""
        return len(self._inbox)

    def finished(self) -> asyncio.Future[None]:
        """Returns a future that ends when the run has ended or is not driven here any more."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._finished:
            waiter.set_result(None)
        else:
            self._waiters.append(waiter)
        return waiter

    def _foreign(self, task_id: str, instance_id: str) -> None:
        self._drive.observer.foreign(self.run_id, task_id, instance_id)

    def _tick(self) -> None:
        self._decider.look_at_all()
        if self._clock.ticks:
            self.offer(Delivery(inp.Tick()))
        else:
            self.wake()

    # A turn of the scheduler ------------------------------------------------------------------------------------

    def decide(self) -> Step | None:
        """Decides the queued inputs, and places tasks that are ready."""
        if self._finished or self.over:
            self._finish()
            return None
        if self._task is not None:
            return None  # it wakes the run at its end
        if self.doubtful:
            self._slowly(self._reload())
            return None
        if self._history.unread():
            self._slowly(self._history.read())
            return None
        batch = self._inbox.take()
        if not self._owner_checked and has_newer(self.state, batch):
            self._inbox.put_first(*batch)
            self._slowly(self._check_owner())
            return None
        self._owner_checked = False
        run, base, state_before = self.state, self.state.last_seq, int(self.state.state)
        executed = self._executed_seq >= 0 or self.creation.new is not None
        decision = Decision(batch, self._clock.now(), executed)
        if self._inbox:
            self.wake()
        try:
            self._decider.decide(run, decision)
        except BaseException:
            self._decider.release(decision)
            self.doubtful |= bool(decision.events)
            raise
        if not decision.events:
            self._nothing_decided(decision)
            return None
        decision.step = build_step(
            run,
            run_id=self.run_id,
            epoch=self.epoch,
            base=base,
            batch_id=self._drive.batch_id(),
            now=decision.now,
            stored_at=self._drive.wall(),
            events=decision.events,
            inputs=decision.inputs,
            batch=decision.batch,
            new=self.creation.new,
            state_before=state_before,
            publishes=self._drive.publishes,
            chain=self._chain,
            audit=decision.audit,
        )
        self._decision = decision
        self.doubtful = True
        return decision.step

    def _nothing_decided(self, decision: Decision) -> None:
        self._delay = RETRY_DELAY
        if posted := [delivery.posted for delivery in decision.batch if delivery.posted]:
            self._slowly(self._drive.journal.drop(posted))
        acknowledge(decision.batch, decision.discarded, self.epoch)
        self._history.release(self.state)
        if not self._timer.at or self._timer.at <= decision.now:
            self._timer.set(open_effects(self.state), decision.now)

    def done(self, result: StepResult) -> None:
        """Finishes the step that `decide` returned."""
        decision, self._decision = self._decision, None
        assert decision is not None
        if self._finished and result is not Outcome.DONE:
            self._decider.release(decision)
            return
        if self.creation.new is not None:
            self._creation_done(decision, result)
            return
        if result is Outcome.DONE:
            self._stored(decision)
            return
        self._decider.release(decision)
        self._inbox.put_first(*decision.batch)
        if result is Outcome.DEPOSED:
            _log.warning("another replica has taken over run %s", self.run_id, extra={"run_id": self.run_id})
            self.deposed = True
        if self.deposed:
            self._finish()
        elif isinstance(result, ArchonError):
            self._slowly(self._recover(result))
        else:
            self._slowly(self._reconsider(decision.events, conflict=result is Outcome.CONFLICT))

    def _creation_done(self, decision: Decision, result: StepResult) -> None:
        if result is Outcome.DONE:
            self.creation.new = None
            self._stored(decision)
            self.creation.stored()
            return
        self._decider.release(decision)
        self.creation.refused(result, self.run_id)
        self._inbox.clear()
        self._finish()

    def _stored(self, decision: Decision) -> None:
        assert decision.step is not None
        self.doubtful, self.durable_seq, self._delay = False, decision.step.last_seq, RETRY_DELAY
        self._chain.stored(decision.step)
        self._drive.observer.stored(decision.step, decision.events)
        self._grown(decision.step)
        acknowledge(decision.batch, decision.discarded, self.epoch)
        if self.deposed:  # in the meantime: the effects are the new owner's, which may be this same process
            self._decider.release(decision)
        else:
            self._execute(decision)
        if self.over:
            self._finish()

    def _grown(self, step: Step) -> None:
        """Has the run end once its journal has become too large."""
        before, limit = self.size, self._drive.max_bytes
        self.size = size = before + step.size
        if size > limit >= before:
            self._inbox.put_first(Delivery(inp.JournalFull(self.size, limit)))
            self.wake()

    def _execute(self, decision: Decision) -> None:
        run = self.state
        if decision.before is None:
            if effects := effects_of(run, decision.events):
                for effect in effects:
                    if isinstance(effect, Timer):
                        self._timer.advance(effect.at)
                self._effects.execute(effects, run, self._clock.now())
            self._decider.release_unassigned(decision, effects)
            if self._timer.at and self._timer.at <= decision.now:  # it has rung, and other tasks may wait for it too
                self._timer.set(open_effects(run), decision.now)
        else:
            after = open_effects(run)
            opened = (after - decision.before) | (after & set(decision.early))
            self._effects.execute(opened, run, self._clock.now())
            self._decider.release_unassigned(decision, opened)
            self._timer.set(after, decision.now)
        self._executed_seq = run.last_seq
        self._history.release(run)

    # Work outside the turns -------------------------------------------------------------------------------------

    def _slowly(self, work: Coroutine[Any, Any, object]) -> None:
        """Runs a coroutine outside the turns; the run decides nothing until it ends."""
        self._task = asyncio.create_task(self._guarded(work), name=f"run-{self.run_id}")

    async def _guarded(self, work: Coroutine[Any, Any, object]) -> None:
        try:
            await work
        except (ResourceExhausted, Unavailable) as error:
            await self._pause(error)
        except Exception as error:  # noqa: BLE001 - an error in one run harms no other
            self._task = None
            self.fail(error)
            return
        self._task = None
        self.wake()

    async def _pause(self, error: ArchonError) -> None:
        delay, self._delay = self._delay, min(MAX_RETRY_DELAY, self._delay * 2)
        _log.warning("run %s: %s; retry in %.1f s", self.run_id, error, delay, extra={"run_id": self.run_id})
        await asyncio.sleep(delay)

    async def _recover(self, error: ArchonError) -> None:
        """After a step whose result is unknown or that was refused: it may be stored, and its effects are due then."""
        await self._reload()
        if not self.over:
            await self._pause(error)

    async def _reconsider(self, events: Sequence[ev.Event], *, conflict: bool) -> None:
        """After a step whose condition did not hold."""
        if conflict:
            await self._history.find_outdated(self.state, events)
        await self._reload()

    async def _check_owner(self) -> None:
        row = await self._drive.journal.run(self.run_id)
        self.doubtful |= row is None or row.epoch != self.epoch
        self._owner_checked = True

    async def _reload(self) -> None:
        if self._executed_seq < 0:
            (state, link), opened = await load_linked_run(self._drive.journal, self.run_id), None
        else:
            state, link, opened = await load_run_since(self._drive.journal, self.run_id, self._executed_seq)
        self._chain.link = link
        self.state, self.doubtful = state, False
        self._decider.look_at_all()
        self.durable_seq = state.last_seq
        if state.epoch > self.epoch:
            self.deposed = True
        elif state.epoch == self.epoch and not self.deposed:
            now = self._clock.now()
            effects = open_effects(state)
            self._effects.execute(effects if opened is None else opened, state, now)
            self._executed_seq = state.last_seq
            self._history.release(state)
            self._timer.set(effects, now)

    # The end ----------------------------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """Whether it takes no more turns: the run has ended, or another replica has taken it over."""
        return (self.state.ended and not self.doubtful) or self.deposed

    def fail(self, error: Exception) -> None:
        """Gives the run up after an unexpected exception; ownership looks for it again later."""
        _log.error("the driver of run %s failed", self.run_id, exc_info=error, extra={"run_id": self.run_id})
        self.creation.resolve(Internal("an unexpected error; the run may have been created"))
        self.failed = True
        self._finish()

    def _finish(self) -> None:
        if self._finished:
            return
        self._finished = True
        self._timer.cancel()
        self._placement.cancel()
        self._history.cancel()
        if self.over and not self.failed:
            acknowledge_late(self._inbox, self.epoch, deposed=self.deposed)
        self._inbox.clear()
        self.creation.ended()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()
        self._drive.observer.finished(self)

    @property
    def ended(self) -> bool:
        """Whether this driver saw the run end."""
        return self.state.ended and not self.deposed and not self.doubtful and self.state.epoch == self.epoch

    @property
    def completed(self) -> bool:
        """Whether this driver saw the run complete."""
        return self.ended and self.state.state is TaskState.COMPLETED

    async def cancel(self, *, claimed: bool = False) -> None:
        """Stops driving; nothing of the run changes by that. `claimed`: the run was claimed again, so it was created.
        Idempotent."""
        if claimed:
            self.creation.resolve()
        self._finish()
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
            await asyncio.wait([self._task])
