"""All runs of this orchestrator: submits new ones, takes over claimed ones, and routes inputs to their drivers."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.errors import ArchonError, DataLoss, ResourceExhausted, Unavailable, UnknownRun
from archon.history import AuditKey
from archon.memory_room import MemoryRoom
from archon.telemetry import metrics
from archon_mesh.engine import RunState
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.budget import limits
from archon_mesh.engine.decide.human_input import asking_task
from archon_mesh.engine.types import Submission
from archon_services.common.quotas import Quotas
from archon_services.orchestrator.convert.budget import amount_from_usage
from archon_services.orchestrator.convert.command import decode_command
from archon_services.orchestrator.convert.event_revision import REVISION
from archon_services.orchestrator.convert.progress import progress_event
from archon_services.orchestrator.journal import AuditRow, CommandRow, Journal, NewRun, RunRow, Step
from archon_services.orchestrator.observability.commits import CommitMeasurement
from archon_services.orchestrator.observability.exporter import RunSpanExporter
from archon_services.orchestrator.observability.run_events import RunEventCounter
from archon_services.orchestrator.ports import Delivery, DispatchGate, Receipt, SystemClock, Transport
from archon_services.orchestrator.quotas import QuotaUsage
from archon_services.orchestrator.runs.clock.clocks import JournalClock
from archon_services.orchestrator.runs.driver import Drive, RunDriver
from archon_services.orchestrator.runs.error_budget import ErrorBudget
from archon_services.orchestrator.runs.limits import RunLimits
from archon_services.orchestrator.runs.quarantine import quarantine
from archon_services.orchestrator.runs.ready_runs import equal_weight
from archon_services.orchestrator.runs.scheduler import Scheduler
from archon_services.orchestrator.runs.states.ended_runs import EndedRuns
from archon_services.orchestrator.runs.states.kept import NOTHING_KEPT, Kept
from archon_services.orchestrator.runs.states.load import load_linked_run, load_run
from archon_services.orchestrator.runs.turn.chain import StepSealer
from archon_services.orchestrator.runs.turn.session_history import TurnQueue
from archon_services.orchestrator.track_records.records import TrackRecords
from archon_services.orchestrator.watch.hub import WatchHub

_log = logging.getLogger(__name__)

MAX_LOOKUPS: Final = 1_000
"""Open questions to the journal about runs that are not driven here."""

PAUSED_COUNT_AGE: Final = 0.2
"""Seconds until the paused runs are counted again."""

MAX_COUNTED: Final = 10_000
"""Instances whose foreign frames are counted."""

_ASKING: Final = frozenset({ev.InputRequested, ev.ApprovalRequested, ev.QuestionTimedOut, ev.Claimed})

MAX_STALLED: Final = 3
"""Claims without a new event after which a run ends as QUARANTINED."""


@dataclass(frozen=True, slots=True)
class RunCensus:
    """The runs that are driven, the paused ones not counted as running, and their queued inputs."""

    running: int
    paused: int
    inputs: int


class Runs:
    """`owner` is the incarnation of this process, new at every start. `publishes`: whether answers go to a shared
    memory."""

    def __init__(
        self,
        *,
        owner: str,
        clock: JournalClock,
        journal: Journal,
        new_id: Callable[[], str],
        publishes: bool = True,
        limits: RunLimits | None = None,
        spans: RunSpanExporter | None = None,
        key: AuditKey | None = None,
        quotas: Quotas | None = None,
        gate: DispatchGate | None = None,
    ) -> None:
        self.owner = owner
        self._gate = gate
        self.watchers = WatchHub(journal)
        self.new_id = new_id
        """Makes the id of a run."""

        self.on_publications: Callable[[int], None] = lambda number: None
        """Called with the number of publications of a durable step that has any."""

        self.track_records = TrackRecords(clock.now)
        """How the tasks of each role and instance went."""

        self.on_questions: Callable[[RunState], None] | None = None
        """Called with the state of a run after a durable step by which people are asked, or by which the run has got
        another owner."""

        self._clock = clock
        self._journal = journal
        self.limits = limits or RunLimits()
        self.quotas = QuotaUsage(quotas, clock.now, clock.monotonic, self._paused_runs) if quotas is not None else None
        """The use of quotas; None if there are none."""

        self._errors = ErrorBudget(self.limits.failures, clock.monotonic)
        self._memory = MemoryRoom(monotonic=clock.monotonic)
        self._paused, self._paused_at = 0, -PAUSED_COUNT_AGE
        self._publishes = publishes
        self._spans = spans
        self._key = key
        self.on_audit: Callable[[], None] = lambda: None
        """Called after a durable step with entries of the audit log."""

        self._recorder = metrics.recorder()
        self._counter = RunEventCounter(self._recorder) if self._recorder is not None else None
        self._transport: Transport | None = None
        self._drive: Drive | None = None
        self._drivers: dict[str, RunDriver] = {}
        self._lookups: set[asyncio.Task[None]] = set()
        self._ended = EndedRuns()
        self._started = False
        self._awaited: set[str] = set()
        """Runs that this process has claimed and does not drive yet, or could not take over."""

        self._closing = False
        self.foreign_frames: Counter[str] = Counter()
        """Frames about attempts that were not dispatched to their sender, by instance."""

    def start(self, transport: Transport) -> None:
        """Accepts runs from here on. Turns of the scheduler run in the context of this call."""
        self._transport = transport
        commits = CommitMeasurement(self._recorder) if self._recorder is not None else None
        weight = self.quotas.weight if self.quotas is not None else equal_weight
        scheduler = Scheduler(self._journal, commits, weight, StepSealer(self._key).seal)
        self._drive = Drive(
            self._journal,
            transport,
            scheduler,
            self,
            TurnQueue(),
            self._clock.now,
            self._publishes,
            self.limits.journal_bytes,
            self._gate,
        )

    # Used by ownership ------------------------------------------------------------------------------------------

    @property
    def room(self) -> int:
        """How many more runs this process can drive."""
        return 0 if self._closing else self.limits.runs - self._under_way()

    def asks(self, run_id: str, input_id: str) -> bool:
        """Whether a run that is driven here has this open question."""
        driver = self._drivers.get(run_id)
        return driver is not None and asking_task(driver.state, input_id) is not None

    def holds(self, run_id: str) -> bool:
        """Whether a driver of this process drives the run."""
        return run_id in self._drivers

    async def take_over(self, row: RunRow, commands: Sequence[CommandRow]) -> None:
        """Goes on with a run that was just claimed, its waiting commands first, and with its clock. A run that was
        claimed again and again without success is quarantined."""
        run_id = row.run_id
        earlier = self._drivers.get(run_id)
        if earlier is not None and earlier.epoch > row.epoch:  # claimed again since, and taken over before this one
            return
        self._awaited.add(run_id)
        if earlier is not None:  # its creation, or a step, may be unanswered
            earlier.depose()
            await earlier.cancel(claimed=True)
        if row.stalled >= MAX_STALLED:
            await quarantine(self._journal, self._running().transport, row, self._clock.now(), self._key)
            if self._spans is not None:
                self._spans.ended(run_id)
            if self._counter is not None:
                self._counter.quarantined()
            self._awaited.discard(run_id)
            return
        try:
            (state, link), size = await load_linked_run(self._journal, run_id), await self._journal.size(run_id)
            clock = await self._clock.continued(state)
        except DataLoss as error:
            _log.error("run %s cannot be loaded: %s", run_id, error, extra={"run_id": run_id})
            return
        # Another replica has claimed it since, or the owner in whose name it was claimed has expired: any replica may.
        if state.epoch > row.epoch or row.owner != self.owner or self._closing:
            self._awaited.discard(run_id)
            return
        if self.quotas is not None and state.submission is not None:
            self.quotas.take_run(state.submission)
        claim = inp.Claim(self.owner, row.epoch, self._clock.origin_of(clock))
        first = [Delivery(claim), *(_delivery(command) for command in commands)]
        self._drivers[run_id] = driver = RunDriver(
            run_id,
            self._running(),
            clock=clock,
            state=state,
            epoch=row.epoch,
            first=first,
            size=size,
            released=row.released,
            tenant=row.tenant,
            link=link,
        )
        self._awaited.discard(run_id)
        driver.wake()

    def command(self, row: CommandRow) -> None:
        """Routes a command to its run; the same command may come again."""
        driver = self._drivers.get(row.run_id)
        if driver is not None:
            driver.offer(_delivery(row))

    def release_all(self) -> None:
        """Stops driving every run, and tells no agent: this incarnation has expired."""
        for driver in list(self._drivers.values()):
            driver.depose()

    def expired(self, owner: str) -> None:
        """Notes the expiry of another replica, by its owner id, for the spans of the runs that it drove."""
        if self._spans is not None:
            self._spans.died(owner)

    def claimed(self) -> None:
        """Every run that was left to this process has been taken over: input for any other run is not for it."""
        self._started = True

    # Submitting -------------------------------------------------------------------------------------------------

    async def submit(
        self,
        submission: Submission,
        payload_hash: bytes,
        wait: float = 0.0,
        *,
        kept: Kept = NOTHING_KEPT,
        audit: AuditRow | None = None,
    ) -> tuple[str, bool]:
        """Creates a run, durable on return. `audit` is the entry about it. Returns (run_id, True), or (the run of the
        same request, False). With `wait` it returns when the run has ended, at the latest after so many seconds. `kept`
        are the parts of its run that a fork keeps.

        Raises ResourceExhausted if too many runs are under way, the error budget is exhausted or memory is short,
        QuotaExceeded if its tenant or identity may have no further run, and the errors of the journal.
        """
        if self._closing:
            raise Unavailable("the orchestrator is stopping", retry_delay=1.0)
        if self._under_way() >= self.limits.runs:
            raise ResourceExhausted(f"{self.limits.runs} runs are under way", retry_delay=1.0)
        self._errors.check()
        self._memory.check("the orchestrator")
        if self.quotas is not None:
            self.quotas.begin_run(submission)
        run_id = submission.run_id
        session_id = submission.session_id
        new = NewRun(run_id, submission.tenant, submission.request_id, payload_hash, session_id, self.owner, REVISION)
        clock = SystemClock(self._clock.now())
        origin = self._clock.origin_of(clock)
        first = [Delivery(kept.submit(submission, self.owner, origin), audit=audit)]
        driver = RunDriver(
            run_id,
            self._running(),
            clock=clock,
            state=RunState(),
            epoch=1,
            first=first,
            new=new,
            tenant=submission.tenant,
        )
        self._drivers[run_id] = driver
        done = driver.creation.waiter(until_end=wait > 0)
        driver.wake()
        timer = asyncio.get_running_loop().call_later(wait, driver.creation.stop_waiting) if wait > 0 else None
        try:
            await done
        finally:
            if timer is not None:
                timer.cancel()
        same_as = driver.creation.same_as
        return (same_as, False) if same_as else (run_id, True)

    def check_pause(self, run_id: str) -> None:
        """Raises ResourceExhausted if too many runs are paused, or wait for a person, to pause this one too."""
        driver = self._drivers.get(run_id)
        paused = driver is not None and driver.state.clock_stopped_since
        if not paused and self._count_paused() >= self.limits.paused:
            raise ResourceExhausted(
                f"{self.limits.paused} runs are paused, or wait for a person (the setting max_paused_runs)",
                retry_delay=60.0,
            )

    def _under_way(self) -> int:
        """The runs that count against the limit: paused ones have a limit of their own."""
        if len(self._drivers) < self.limits.runs:
            return len(self._drivers)
        return len(self._drivers) - min(self._count_paused(), self.limits.paused)

    def _count_paused(self) -> int:
        """The paused runs and those that wait for a person, as of a moment ago."""
        now = self._clock.monotonic()
        if now - self._paused_at >= PAUSED_COUNT_AGE:
            self._paused_at = now
            self._paused = sum(driver.state.clock_stopped_since > 0 for driver in self._drivers.values())
        return self._paused

    def _paused_runs(self) -> Iterator[str]:
        return (run_id for run_id, driver in self._drivers.items() if driver.state.clock_stopped_since > 0)

    def _running(self) -> Drive:
        assert self._drive is not None, "not started"
        return self._drive

    # Measurements -----------------------------------------------------------------------------------------------

    def census(self) -> RunCensus:
        """Counts the runs that are driven now. Any thread may call it."""
        drivers = list(self._drivers.values())
        paused = sum(driver.state.clock_stopped_since > 0 for driver in drivers)
        return RunCensus(len(drivers) - paused, paused, sum(driver.inputs for driver in drivers))

    @property
    def ready(self) -> int:
        """How many runs wait for a turn of the scheduler."""
        return self._drive.scheduler.ready if self._drive is not None else 0

    # Reports of drivers -----------------------------------------------------------------------------------------

    def stored(self, step: Step, events: Sequence[ev.Event]) -> None:
        """A step with these events is durable."""
        self.watchers.publish_step(step, events)
        self._errors.note(events)
        if self._spans is not None:
            self._spans.stored(step, events)
        if (driver := self._drivers.get(step.run_id)) is not None:
            self.track_records.note(events, driver.state)
            if self.quotas is not None:
                self.quotas.stored(step, events, driver.state)
            if self._counter is not None:
                self._counter.stored(events, driver.state)
        if step.audit:
            self.on_audit()
        if step.publications:
            self.on_publications(len(step.publications))
        if self.on_questions is not None and any(type(event) in _ASKING for event in events):
            driver = self._drivers.get(step.run_id)
            if driver is not None:
                self.on_questions(driver.state)

    def finished(self, driver: RunDriver) -> None:
        """A driver has finished: the run has ended, another replica has taken it over, or the driver failed."""
        run_id = driver.run_id
        if self._drivers.get(run_id) is driver:  # and not one that has taken the run over since
            del self._drivers[run_id]
            if self.quotas is not None:
                self.quotas.end_run(run_id)
            if self._transport is not None and not driver.completed and not driver.creation.same_as:
                self._transport.release_run(run_id, over=driver.ended)
        if self._spans is not None:
            self._spans.left(run_id)
        if driver.failed:
            self._awaited.add(run_id)
        if driver.ended:
            self._ended.add(driver.state, run_id, driver.size)

    # Reports of sessions ----------------------------------------------------------------------------------------

    def expects(self, ref: common_pb2.TaskRef, source: str) -> bool:
        """Whether a run that is driven here has dispatched the attempt to the instance `source`; counts the frame as
        foreign if another instance holds the attempt."""
        driver = self._drivers.get(ref.run_id)
        if driver is None:
            return False
        holder = driver.state.holder(ref.task_id, ref.attempt)
        if holder and holder != source:
            self.foreign(ref.run_id, ref.task_id, source)
        return holder == source

    def deliver(self, run_id: str, delivery: Delivery) -> bool:
        """Routes an input to its run. Input for a run of another replica is discarded, once the journal says so; for a
        run that is still to be taken over there is no receipt: its agents keep their attempts and are asked for them.
        Returns whether there will be a receipt."""
        driver = self._drivers.get(run_id)
        if driver is not None:
            driver.offer(delivery)
            return True
        if delivery.receipt is None or not self._started or self._closing:
            return False
        if self._journal.shared:
            return self._ask(run_id, delivery.receipt)
        if run_id in self._awaited:
            return False
        delivery.receipt.discard("UNKNOWN_RUN")
        return True

    def foreign(self, run_id: str, task_id: str, instance_id: str) -> None:
        """Counts a frame of an instance about an attempt that was not dispatched to it; logs the first of each."""
        if instance_id not in self.foreign_frames:
            if len(self.foreign_frames) >= MAX_COUNTED:
                return
            text = "%s sent a frame about task %s of run %s, which was not dispatched to it; further ones are counted"
            _log.warning(text, instance_id, task_id, run_id, extra={"run_id": run_id, "task_id": task_id})
        self.foreign_frames[instance_id] += 1
        if self._recorder is not None:
            self._recorder.add(metrics.FRAMES_REFUSED, ("NOT_DISPATCHED",))

    def _ask(self, run_id: str, receipt: Receipt) -> bool:
        """Asks the journal about a run that is not driven here: another replica's, or one that has ended. If too many
        questions are open the input is dropped, and the return value is False; its agent offers it again."""
        if len(self._lookups) >= MAX_LOOKUPS:
            return False

        async def ask() -> None:
            assert self._transport is not None
            try:
                row = await self._journal.run(run_id)
                if row is None or row.ended_at:
                    self._awaited.discard(run_id)  # another replica ended it
                    receipt.discard("UNKNOWN_RUN", row.epoch if row is not None else 0)
                    return
            except ArchonError as error:
                _log.info("the owner of run %s is unknown: %s", run_id, error, extra={"run_id": run_id})
            if run_id not in self._drivers:  # if it was taken over in the meantime, its attempts belong here
                self._transport.release_run(run_id)

        task = asyncio.create_task(ask(), name=f"ask-{run_id}")
        self._lookups.add(task)
        task.add_done_callback(self._lookups.discard)
        return True

    def progress(self, ref: common_pb2.TaskRef, progress: agent_pb2.Progress, source: str) -> None:
        """Passes an attempt's progress to watchers, unless the attempt has ended. Progress is not stored. `source` is
        the instance that sent it."""
        driver = self._drivers.get(ref.run_id)
        task = driver.state.tasks.get(ref.task_id) if driver is not None else None
        if driver is None or task is None or not task.live or task.attempt != ref.attempt:
            return
        if source != task.instance_id:
            self.foreign(ref.run_id, ref.task_id, source)
            return
        if progress.HasField("usage") and any(limits(driver.state, task)):
            driver.offer(Delivery(inp.UsageIn(ref.task_id, ref.attempt, amount_from_usage(progress.usage))))
        if not self.watchers.watched(ref.run_id):
            return
        event = progress_event(ref, progress, task.role, driver.now())
        if event is not None:
            self.watchers.publish_passing(event, driver.durable_seq)

    # Queries ----------------------------------------------------------------------------------------------------

    async def wait_until_finished(self, run_id: str) -> None:
        """Returns when the run has ended, or is not driven here."""
        driver = self._drivers.get(run_id)
        if driver is not None:
            await driver.finished()

    def held(self, run_id: str) -> RunState | None:
        """Returns the durable state of a run that is driven here or has just ended, None if only the journal has it."""
        driver = self._drivers.get(run_id)
        if driver is None:
            return self._ended.get(run_id)
        return driver.state if driver.state.submission is not None and not driver.doubtful else None

    async def state(self, run_id: str) -> RunState:
        """Returns the durable state of a run. Raises UnknownRun."""
        if (held := self.held(run_id)) is not None:
            return held
        try:
            state = await load_run(self._journal, run_id)
        except DataLoss as error:
            if (row := await self._journal.run(run_id)) is not None and row.revision > REVISION:
                raise Unavailable(
                    f"run {run_id} was written by a newer release of Archon: ask a replica of that release",
                    retry_delay=1.0,
                    metadata={"run_id": run_id},
                ) from error
            raise
        if state.submission is None:
            raise UnknownRun(f"there is no run {run_id!r}", metadata={"run_id": run_id})
        return state

    async def stop(self) -> None:
        """Stops driving; nothing of any run changes by that. Idempotent."""
        self._closing = True
        self.watchers.close()
        if self._drive is not None:
            self._drive.scheduler.stop()
        for driver in list(self._drivers.values()):
            await driver.cancel()
        for task in self._lookups:
            task.cancel()
        if self._lookups:
            await asyncio.wait(self._lookups)


def _delivery(row: CommandRow) -> Delivery:
    return Delivery(decode_command(row.data, row.run_id), posted=row.row_id)
