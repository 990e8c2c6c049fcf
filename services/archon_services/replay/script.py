"""The script of a recorded run: the acts of its agents and its callers, and the times that passed, one cue after the
other."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from archon.api.agent.v1 import session_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import FailedPrecondition
from archon.types import RunRecord
from archon_mesh.engine import inputs as inp
from archon_services.replay.frames import frames_of, plan_json_of, record_frame
from archon_services.replay.naming import Names
from archon_services.replay.recorded_run import Decision, Recording

DISPATCHED: Final = "dispatched"
GONE: Final = "gone"
"""The kind of an event by which an attempt ends without a result of its own: lost, or rejected."""

DUE: Final = "due"
"""The kind of an event that follows from the time."""

_TIMES: Final = (inp.Tick, inp.DecisionIn, inp.InputMissing)
"""Inputs that the orchestrator makes itself: at a time, or once a step is ready, maybe after a delay."""

_IGNORED: Final = (inp.PublishedIn, inp.RecordsIn, inp.Claim, inp.WorkingIn, inp.Submit)
_CALLED: Final[dict[type, str]] = {
    inp.Cancel: "cancel_requested",
    inp.Respond: "input_given",
    inp.Pause: "paused",
    inp.Resume: "resumed",
    inp.EditPlan: "planned",
    inp.SetBreakpoints: "breakpoints_set",
}
"""The event that each call of a caller causes."""


Awaited = tuple[str, int, str]
"""The name of a task, or of an event, the attempt, and the kind of the event."""


@dataclass(slots=True)
class Cue:
    """A thing that happened, at event `seq` and `time` (wall seconds): it is over once the `awaited` event comes again,
    by task, attempt and kind, or by its name with the kind DUE. `frames` are sent by the attempt at `task`; `call` is
    the event that a caller caused. Without either it is only waited for. `needs_slot`: it comes once an instance of the
    role has a free slot."""

    seq: int
    time: float
    kind: str
    awaited: Awaited
    task: str = ""
    role: str = ""
    attempt: int = 0
    frames: list[session_pb2.AgentFrame] = field(default_factory=list)
    call: run_pb2.RunEvent | None = None
    plan_json: str = ""
    needs_slot: bool = False
    over: bool = False

    @property
    def dispatch(self) -> tuple[str, int]:
        """The attempt that needs a slot: the awaited one, or the next one at its task if that was not dispatched."""
        task, attempt, kind = self.awaited
        return task, attempt if kind == DISPATCHED else attempt + 1


@dataclass(frozen=True, slots=True)
class Script:
    """The cues of a run in order. It ends at event `end`, for the reason `stops`, if the rest cannot be played;
    else it has everything, and `stops` is empty."""

    names: Names
    cues: tuple[Cue, ...]
    end: int
    stops: str = ""


def script_of(recording: Recording, records: Iterable[RunRecord], *, timed: bool = True) -> Script:
    """Returns the script of a recorded run; unless it is `timed`, up to the first event that the clock has caused.
    Raises FailedPrecondition if the run cannot be run again."""
    if recording.difference is not None:
        raise FailedPrecondition("today's engine decides the recording otherwise: it cannot be run again")
    if recording.undecided:  # a run in quarantine, or of an earlier version
        raise FailedPrecondition(
            f"{recording.undecided} events were stored without their inputs: the run cannot be run again"
        )
    return _Writer(recording, records, timed=timed).write()


class _Writer:
    def __init__(self, recording: Recording, records: Iterable[RunRecord], *, timed: bool) -> None:
        self._recording = recording
        self._unplayed = (inp.JournalFull,) if timed else (inp.JournalFull, inp.Tick)
        self._names = Names()
        for event in recording.events:
            self._names.add(event)
        self._records: dict[tuple[str, int], deque[RunRecord]] = defaultdict(deque)
        for record in records:
            self._records[record.task.task_id, record.task.attempt].append(record)
        self._stored: Counter[tuple[str, int]] = Counter()
        """Records that were stored and are not sent yet, by attempt."""

    def write(self) -> Script:
        cues: list[Cue] = []
        for decision in self._recording.decisions:
            if isinstance(decision.input, self._unplayed) and decision.seqs:
                first = self._recording.event(decision.seqs[0])
                return Script(self._names, tuple(cues), decision.seqs[0] - 1, _reason(decision, first))
            cues += self._cues(decision)
        goes_on = "" if self._recording.state.ended else "the recording ends there: the run had not ended"
        return Script(self._names, tuple(cues), len(self._recording.events), goes_on)

    def _cues(self, decision: Decision) -> Iterator[Cue]:
        given = decision.input
        events = [self._recording.event(seq) for seq in decision.seqs]
        for event in events:
            if event.HasField("recorded"):
                self._stored[event.task.task_id, event.task.attempt] += event.recorded.count
        main = next((event for event in events if not event.HasField("recorded")), None)
        if main is None or isinstance(given, _IGNORED):
            return
        if type(given) in _CALLED:
            kind = _CALLED[type(given)]
            caused = next((event for event in events if event.HasField(kind)), None)  # type: ignore[arg-type]
            if caused is not None:
                cue = self._cue(decision, caused, kind)
                cue.call, cue.awaited = caused, self._by_name(caused)
                if isinstance(given, inp.EditPlan):
                    cue.plan_json = plan_json_of(given.plan)
                yield cue
            return
        if isinstance(given, _TIMES):
            yield self._cue(decision, main, DUE)
            return
        kind = main.WhichOneof("event") or ""
        if isinstance(given, (inp.LostIn, inp.RejectIn)):
            kind = GONE
        sender = sender_of(given)
        cue = self._cue(decision, main, kind, sender)
        cue.needs_slot = isinstance(given, inp.SlotFound)  # the dispatch, or the hold of a breakpoint before it
        if sender is not None and (frames := frames_of(given, main, events)):
            cue.frames = [*self._call_records(*sender), *frames]
        yield cue

    def _cue(
        self, decision: Decision, event: run_pb2.RunEvent, kind: str, sender: tuple[str, int] | None = None
    ) -> Cue:
        """The cue of an event. `sender` is the attempt that caused it; None: the event's own."""
        task_id, attempt = sender or (event.task.task_id, event.task.attempt)
        task = self._recording.state.tasks.get(task_id)
        own = self._names.tasks.get(event.task.task_id, "")
        awaited = self._by_name(event) if kind == DUE else (own, event.task.attempt, kind)
        name = self._names.tasks.get(task_id, "")
        role = event.dispatched.role or (task.role if task is not None else "")
        return Cue(event.seq, decision.time, kind, awaited, name, role, attempt)

    def _by_name(self, event: run_pb2.RunEvent) -> Awaited:
        return self._names.events[event.seq], 0, DUE

    def _call_records(self, task_id: str, attempt: int) -> list[session_pb2.AgentFrame]:
        """The records of the attempt that were stored up to this event, and not sent yet."""
        key = task_id, attempt
        stored, wanted = self._records[key], self._stored.pop(key, 0)
        return [record_frame(stored.popleft()) for _ in range(min(wanted, len(stored)))]


def sender_of(given: inp.Input) -> tuple[str, int] | None:
    """Returns the attempt that an input is about, as task and number; None if it is about none."""
    attempt: int | None = getattr(given, "attempt", None)
    return None if attempt is None else (str(getattr(given, "task_id", "")), attempt)


def _reason(decision: Decision, event: run_pb2.RunEvent) -> str:
    kind = (event.WhichOneof("event") or "").replace("_", " ")
    cause = "the size of its journal" if isinstance(decision.input, inp.JournalFull) else "the clock"
    return f"{cause} caused event {event.seq} ({kind}), which is not made to come again"
