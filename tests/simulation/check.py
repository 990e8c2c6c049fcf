"""Looks at what is stored while it is stored, and at what leaves while it leaves: the validator's lines by number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from archon.api.orchestrator.v1 import run_pb2
from archon_mesh.core.run import Effect, Place, RunState, Timer, apply, open_effects
from archon_mesh.core.run import events as ev
from archon_services.orchestrator.convert import event_from_proto, event_time
from archon_services.orchestrator.journal import NewRun, RunRow, Step
from archon_services.orchestrator.journal.framing import events_in
from tests.simulation.loop import Process, VirtualLoop

_ENDS = (ev.ResultReceived, ev.InputRequested, ev.Lost, ev.Rejected, ev.Retried, ev.Discarded)
"""What ends an attempt."""


class Violation(AssertionError):
    """A line of the validator doesn't hold."""


def must(line: str, holds: bool, why: object = "") -> None:
    """Raises Violation that names the line."""
    if not holds:
        raise Violation(f"{line}: {why}")


@dataclass(frozen=True, slots=True)
class Execution:
    """A line of the agents' ledger: an attempt whose work was finished."""

    task_id: str
    attempt: int
    instance_id: str


@dataclass(slots=True)
class Book:
    """What is durable of one run."""

    request: tuple[str, str]
    holder: Process | None
    epoch: int
    events: list[bytes] = field(default_factory=list)
    protos: list[run_pb2.RunEvent] = field(default_factory=list)
    facts: list[ev.Event] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    """When each was decided (wall seconds)."""
    closed: dict[tuple[str, int], int] = field(default_factory=dict)
    """The event that ended an attempt, by (task, attempt)."""
    state: RunState = field(default_factory=RunState)
    dispatched: dict[tuple[str, int], ev.Dispatched] = field(default_factory=dict)
    delegated: dict[tuple[str, int, str], ev.Delegated] = field(default_factory=dict)
    opened: dict[int, frozenset[Effect]] = field(default_factory=dict)
    """Effects on agents that were open after the step that ended with this event."""

    ending_at: float | None = None
    """Since when (virtual seconds) nothing of it is to be worked on."""

    def over(self, task_id: str, attempt: int) -> bool:
        """True where the journal knows that this attempt needs nothing more."""
        task = self.state.tasks.get(task_id)
        return task is None or self.state.ended or attempt < task.attempt or not task.live


class Check:
    """`violation` is the first one: raised within a driver it would only look like a driver that fails."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.books: dict[str, Book] = {}
        self.requests: dict[tuple[str, str], str] = {}
        self.ledger: defaultdict[str, list[Execution]] = defaultdict(list)
        self.inputs = 0
        self.violation: Violation | None = None
        self._executed: dict[object, int] = {}

    def must(self, line: str, holds: bool, why: object = "") -> None:
        """Remembers the first line that doesn't hold."""
        if not holds and self.violation is None:
            self.violation = Violation(f"{line}: at {self.loop.now:.3f} s: {why}")

    def created(self, who: Process | None, new: NewRun, first: Step) -> None:
        """V1: one run per tenant and request id."""
        key = new.tenant, new.request_id
        known = self.requests.setdefault(key, new.run_id)
        self.must("V1", known == new.run_id, f"request {key} made both {known} and {new.run_id}")
        self.books[new.run_id] = Book(key, who, first.epoch)
        self.stored(who, first)

    def claimed(self, who: Process | None, row: RunRow) -> None:
        """V2: each claim is another epoch."""
        book = self.books[row.run_id]
        self.must("V2", row.epoch > book.epoch, f"{row.run_id} was claimed as epoch {row.epoch} after {book.epoch}")
        book.holder, book.epoch = who, row.epoch

    def stored(self, who: Process | None, step: Step) -> None:
        """V2: one event per number, and nobody's but the last claimer's."""
        book, run_id = self.books[step.run_id], step.run_id
        self.must("V2", step.epoch == book.epoch, f"{who} wrote to {run_id} as epoch {step.epoch} of {book.epoch}")
        self.must("V2", who is book.holder, f"{who} wrote to {run_id}, which {book.holder} has claimed")
        last = len(book.events)
        self.must("V2", step.base == last, f"{run_id} goes on after {step.base}, its last is {last}")
        for data in events_in(step.data):
            self._event(book, data)
        self.must("V2", step.last_seq == len(book.events), f"{run_id} says it ends at {step.last_seq}")
        self.must("V2", book.state.ended == step.ended, f"{run_id} says ended: {step.ended}")
        book.opened[step.last_seq] = frozenset(
            effect for effect in open_effects(book.state) if not isinstance(effect, (Place, Timer))
        )
        counted = sum(event.count for event in book.facts[last:] if isinstance(event, ev.Recorded))
        records = len(step.records)
        self.must("V5", counted == records, f"{run_id} stores {records} recorded calls, its events say {counted}")

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
        elif isinstance(event, _ENDS):
            book.closed.setdefault((event.task_id, event.attempt), proto.seq)
        try:
            apply(book.state, event, time)
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody can read that run
            self.must("V6", False, f"event {proto.seq} of {proto.run_id} can't be folded: {error!r}")
        if book.ending_at is None and (book.state.ending is not None or book.state.ended):
            book.ending_at = self.loop.now

    def executed(self, driver: object, run_id: str, seq: int, effects: Sequence[Effect]) -> None:
        """V5: effects are of durable events. V6: those of a step are the difference of what is open after it and before."""
        book = self.books.get(run_id)
        if book is None or seq not in book.opened:
            self.must("V5", False, f"effects of event {seq} of {run_id} were executed before it was durable")
            return
        before = book.opened[self._executed[driver]] if driver in self._executed else frozenset()
        self._executed[driver] = seq
        done = {effect for effect in effects if not isinstance(effect, (Place, Timer))}
        due = book.opened[seq] - before
        self.must("V6", done == due, f"after event {seq} of {run_id} {done} was executed, {set(due)} was due")

    def shown(self, run_id: str, cursor: int, events: Sequence[run_pb2.RunEvent]) -> int:
        """V12, and the last line of V5's table: durable events as they are durable, each once and in order; no delta
        of an attempt after its end. Returns the last number that was seen."""
        book = self.books[run_id]
        for event in events:
            if not event.seq:
                self._passing(book, cursor, event)
                continue
            self.must("V12", event.seq == cursor + 1, f"a watcher of {run_id} saw {event.seq} after {cursor}")
            same = event.seq <= len(book.protos) and book.protos[event.seq - 1] == event
            self.must("V12", same, f"a watcher of {run_id} saw as {event.seq} what isn't durable")
            cursor = event.seq
        return cursor

    def _passing(self, book: Book, cursor: int, event: run_pb2.RunEvent) -> None:
        key = event.task.task_id, event.task.attempt
        self.must("V12", book.closed.get(key, cursor + 1) > cursor, f"a delta of attempt {key} came after its end")
