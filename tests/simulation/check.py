"""Checks every stored step and every event shown to a watcher as it happens, by the numbers of the validator's
lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from archon.api.orchestrator.v1 import run_pb2
from archon_mesh.engine import Effect, Place, RunState, Timer, apply, open_effects
from archon_mesh.engine import events as ev
from archon_services.orchestrator.convert import event_from_proto, event_time
from archon_services.orchestrator.journal import NewRun, RunRow, Step
from archon_services.orchestrator.journal.framing import events_in
from tests.simulation.loop import Process, VirtualLoop

_ENDS = (ev.ResultReceived, ev.InputRequested, ev.ApprovalRequested, ev.Lost, ev.Rejected, ev.Retried, ev.Discarded)
"""The events that end an attempt."""


class Violation(AssertionError):
    """A line of the validator is violated."""


def must(line: str, holds: bool, why: object = "") -> None:
    """Raises Violation with the line's name unless the condition holds."""
    if not holds:
        raise Violation(f"{line}: {why}")


@dataclass(frozen=True, slots=True)
class Execution:
    """A line of the agents' ledger: a finished execution of an attempt."""

    task_id: str
    attempt: int
    instance_id: str


@dataclass(slots=True)
class Book:
    """The durable state of one run."""

    request: tuple[str, str]
    holder: Process | None
    epoch: int
    events: list[bytes] = field(default_factory=list)
    protos: list[run_pb2.RunEvent] = field(default_factory=list)
    facts: list[ev.Event] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    """The time at which each event was decided, in wall seconds."""

    closed: dict[tuple[str, int], int] = field(default_factory=dict)
    """The sequence number of the event that ended an attempt, by (task, attempt)."""

    state: RunState = field(default_factory=RunState)
    dispatched: dict[tuple[str, int], ev.Dispatched] = field(default_factory=dict)
    delegated: dict[tuple[str, int, str], ev.Delegated] = field(default_factory=dict)
    opened: dict[int, frozenset[Effect]] = field(default_factory=dict)
    """Open effects on agents after each step, by the step's last sequence number."""

    ending_at: float | None = None
    """The time in virtual seconds from which no agent should work on the run, or None."""

    def over(self, task_id: str, attempt: int) -> bool:
        """Returns whether the journal shows that this attempt needs no further work."""
        task = self.state.tasks.get(task_id)
        return task is None or self.state.ended or attempt < task.attempt or not task.live


class Check:
    """Keeps the first violation. It is not raised at once: within a driver it would be treated as the driver's
    failure."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.books: dict[str, Book] = {}
        self.requests: dict[tuple[str, str], str] = {}
        self.ledger: defaultdict[str, list[Execution]] = defaultdict(list)
        self.inputs = 0
        self.violation: Violation | None = None
        self._executed: dict[object, int] = {}

    def must(self, line: str, holds: bool, why: object = "") -> None:
        """Records a violation of the line if the condition does not hold and none is recorded yet."""
        if not holds and self.violation is None:
            self.violation = Violation(f"{line}: at {self.loop.now:.3f} s: {why}")

    def driver_failed(self, run_id: str, error: Exception) -> None:
        """Checks V6: no input makes the driver of a run fail, though ownership would look for the run again."""
        self.must("V6", False, f"the driver of {run_id} failed: {error!r}")

    def created(self, process: Process | None, new: NewRun, first: Step) -> None:
        """Checks V1: one run per tenant and request id."""
        key = new.tenant, new.request_id
        known = self.requests.setdefault(key, new.run_id)
        self.must("V1", known == new.run_id, f"request {key} made both {known} and {new.run_id}")
        self.books[new.run_id] = Book(key, process, first.epoch)
        self.stored(process, first)

    def claimed(self, process: Process | None, row: RunRow) -> None:
        """Checks V2: each claim increases the epoch."""
        book = self.books[row.run_id]
        self.must("V2", row.epoch > book.epoch, f"{row.run_id} was claimed as epoch {row.epoch} after {book.epoch}")
        book.holder, book.epoch = process, row.epoch

    def stored(self, process: Process | None, step: Step) -> None:
        """Checks V2: one event per sequence number, written only by the process that claimed the run last."""
        book, run_id = self.books[step.run_id], step.run_id
        self.must("V2", step.epoch == book.epoch, f"{process} wrote to {run_id} as epoch {step.epoch} of {book.epoch}")
        self.must("V2", process is book.holder, f"{process} wrote to {run_id}, which {book.holder} has claimed")
        last = len(book.events)
        self.must("V2", step.base == last, f"{run_id} continues after {step.base}, its last event is {last}")
        for data in events_in(step.data):
            self._event(book, data)
        self.must("V2", step.last_seq == len(book.events), f"the step of {run_id} claims to end at {step.last_seq}")
        self.must("V2", book.state.ended == step.ended, f"the step of {run_id} has ended = {step.ended}")
        book.opened[step.last_seq] = frozenset(
            effect for effect in open_effects(book.state) if not isinstance(effect, (Place, Timer))
        )
        counted = sum(event.count for event in book.facts[last:] if isinstance(event, ev.Recorded))
        records = len(step.records)
        self.must("V5", counted == records, f"{run_id} stores {records} recorded calls, its events count {counted}")

    def _event(self, book: Book, data: bytes) -> None:
        proto = run_pb2.RunEvent.FromString(data)
        book.events.append(data)
        book.protos.append(proto)
        event, time = event_from_proto(proto), event_time(proto)
        book.facts.append(event)
        book.times.append(time)
        if isinstance(event, ev.Dispatched):
            book.dispatched[event.task_id, event.attempt] = event
        elif isinstance(event, ev.Delegated):
            book.delegated[event.task_id, event.attempt, event.delegation_id] = event
        elif isinstance(event, _ENDS) and not (isinstance(event, ev.InputRequested) and event.sequence):
            book.closed.setdefault((event.task_id, event.attempt), proto.seq)
        try:
            apply(book.state, event, time)
        except Exception as error:  # noqa: BLE001 - every error makes the run unreadable
            self.must("V6", False, f"cannot fold event {proto.seq} of {proto.run_id}: {error!r}")
        if book.ending_at is None and (book.state.ending is not None or book.state.ended):
            book.ending_at = self.loop.now

    def executed(self, driver: object, run_id: str, seq: int, effects: Sequence[Effect]) -> None:
        """Checks V5: effects belong to durable events; and V6: a step's effects are those that it opened."""
        book = self.books.get(run_id)
        if book is None or seq not in book.opened:
            self.must("V5", False, f"effects of event {seq} of {run_id} were executed before it was durable")
            return
        before = book.opened[self._executed[driver]] if driver in self._executed else frozenset()
        self._executed[driver] = seq
        performed = {effect for effect in effects if not isinstance(effect, (Place, Timer))}
        due = book.opened[seq] - before
        self.must("V6", performed == due, f"after event {seq} of {run_id} {performed} was executed, {set(due)} was due")

    def shown(self, run_id: str, cursor: int, events: Sequence[run_pb2.RunEvent]) -> int:
        """Checks V12 and the last line of V5's table: a watcher receives every durable event once and in order, and no
        delta of an attempt after its end. Returns the last sequence number."""
        book = self.books[run_id]
        for event in events:
            if not event.seq:
                self._passing(book, cursor, event)
                continue
            self.must("V12", event.seq == cursor + 1, f"a watcher of {run_id} saw {event.seq} after {cursor}")
            same = event.seq <= len(book.protos) and book.protos[event.seq - 1] == event
            self.must("V12", same, f"a watcher of {run_id} saw event {event.seq}, which is not durable")
            cursor = event.seq
        return cursor

    def _passing(self, book: Book, cursor: int, event: run_pb2.RunEvent) -> None:
        key = event.task.task_id, event.task.attempt
        self.must("V12", book.closed.get(key, cursor + 1) > cursor, f"a delta of attempt {key} came after its end")
