"""A recorded run, decided again: its events, the inputs that caused them, and the task that each attempt was sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from enum import IntEnum
from typing import Any, Final

from archon.api.agent.v1 import agent_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import ArchonError
from archon.history import RecordedStep, RunHistory
from archon.plain_text import cut
from archon_mesh.engine import RunState, apply
from archon_mesh.engine import events as ev
from archon_mesh.engine.codec import decode_inputs
from archon_mesh.engine.decide.engine import decide
from archon_mesh.engine.inputs import Input
from archon_services.orchestrator.convert import event_from_proto, event_time, events_of
from archon_services.orchestrator.dispatch.assign_task import assign_task

MAX_FIELDS: Final = 20
"""Differing fields of an event that are named."""

MAX_SHOWN: Final = 200
"""Characters of a value that are shown."""

NOTHING: Final = "(nothing)"


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A field that differs, by its path in the event, such as `failure.reason`."""

    path: str
    recorded: str
    now: str


@dataclass(frozen=True, slots=True)
class Difference:
    """The first event that differs. `recorded` and `now` are the kinds of the two events, NOTHING if one side has none
    there; `cause` is the kind of the input that was decided; `reason` is a clause."""

    seq: int
    recorded: str
    now: str
    reason: str
    cause: str = ""
    fields: tuple[FieldDifference, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """An input, the events that it caused, by their numbers, and the time in wall seconds."""

    input: Input
    seqs: tuple[int, ...]
    time: float


@dataclass(slots=True)
class Recording:
    """A history, decided again by today's engine.

    `difference` is the first event that the engine decides otherwise, None if it decides all as it did: `decisions` and
    `state` end before it. `undecided` counts the events that were stored without inputs, and cannot be decided again:
    events of earlier versions of Archon, and the end of a run that was quarantined. `assigned` are the tasks as they
    were sent, by (task, attempt)."""

    history: RunHistory
    events: list[run_pb2.RunEvent] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    assigned: dict[tuple[str, int], agent_pb2.AssignTask] = field(default_factory=dict)
    state: RunState = field(default_factory=RunState)
    inputs: int = 0
    undecided: int = 0
    difference: Difference | None = None

    @property
    def run_id(self) -> str:
        """The id of the recorded run."""
        return self.history.run_id

    @property
    def submitted(self) -> run_pb2.Submitted:
        """How the run was submitted."""
        return self.events[0].submitted

    def event(self, seq: int) -> run_pb2.RunEvent:
        """Returns an event by its number."""
        return self.events[seq - 1]


def decide_again(history: RunHistory) -> Recording:
    """Folds the steps of a run, and decides its recorded inputs again, up to the first difference."""
    recording = Recording(history)
    for step in history.steps:
        recording.difference = _decide_step(recording, step)
        if recording.difference is not None:
            break
    return recording


def _decide_step(recording: Recording, step: RecordedStep) -> Difference | None:
    seq = recording.state.last_seq + 1
    try:
        stored = list(events_of(step.data, recording.run_id))
        facts = [event_from_proto(event) for event in stored]
    except ArchonError as error:
        return Difference(seq, "unreadable", NOTHING, error.message)
    if not stored or stored[0].seq != seq:
        found = f"got event {stored[0].seq}" if stored else "its step has no event"
        return Difference(seq, NOTHING, NOTHING, f"the event is missing: {found}")
    recording.events += stored
    if not step.inputs:
        recording.undecided += len(stored)
        for fact, event in zip(facts, stored, strict=True):
            if (fault := _apply(recording, fact, event)) is not None:
                return fault
        return None
    try:
        inputs, now = decode_inputs(step.inputs)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        return Difference(seq, _kind(facts[0]), NOTHING, f"the inputs of its step cannot be read: {error}")
    return _decide_inputs(recording, facts, stored, inputs, now)


def _decide_inputs(
    recording: Recording,
    facts: Sequence[ev.Event],
    stored: Sequence[run_pb2.RunEvent],
    inputs: Sequence[Input],
    now: float,
) -> Difference | None:
    position, last = 0, ""
    for given in inputs:
        recording.inputs += 1
        last = type(given).__name__
        try:
            decided = decide(recording.state, given, now)
        except Exception as error:  # noqa: BLE001 - a damaged or a later file may have any input
            seq = recording.state.last_seq + 1
            return Difference(seq, _kind(facts[position]), NOTHING, f"{last} cannot be decided: {error!r}", last)
        first = recording.state.last_seq + 1
        for event in decided:
            recorded = facts[position] if position < len(facts) else None
            found = _compared(recording.state.last_seq + 1, recorded, event, last)
            if found is None and recorded is not None and event_time(stored[position]) != now:
                times = FieldDifference("time", f"{event_time(stored[position]):.6f}", f"{now:.6f}")
                found = Difference(first, _kind(recorded), _kind(event), "it has another time", last, (times,))
            if found is not None:
                return found
            assert recorded is not None
            if (fault := _apply(recording, recorded, stored[position])) is not None:
                return fault
            position += 1
        seqs = tuple(range(first, recording.state.last_seq + 1))
        recording.decisions.append(Decision(given, seqs, now))
    if position == len(facts) - 1 and _is_quarantine(facts[position]):
        recording.undecided += 1
        return _apply(recording, facts[position], stored[position])
    if position < len(facts):
        seq = recording.state.last_seq + 1
        return Difference(seq, _kind(facts[position]), NOTHING, "today's engine decides no such event", last)
    return None


def _apply(recording: Recording, fact: ev.Event, event: run_pb2.RunEvent) -> Difference | None:
    try:
        apply(recording.state, fact, event_time(event))
        if isinstance(fact, ev.Dispatched):
            task = recording.state.tasks[fact.task_id]
            recording.assigned[fact.task_id, fact.attempt] = assign_task(recording.state, task, event_time(event))
    except Exception as error:  # noqa: BLE001 - an event that contradicts those before it
        return Difference(event.seq, _kind(fact), NOTHING, f"it contradicts the events before it: {error!r}")
    return None


def _is_quarantine(event: ev.Event) -> bool:
    """Whether an orchestrator ended a run that it could not drive; no input causes that."""
    return isinstance(event, ev.RunEnded) and event.failure is not None and event.failure.reason == "QUARANTINED"


def _compared(seq: int, recorded: ev.Event | None, now: ev.Event, cause: str) -> Difference | None:
    if recorded is None:
        return Difference(seq, NOTHING, _kind(now), "the recording has no such event", cause)
    if recorded == now:
        return None
    if type(recorded) is not type(now):
        return Difference(seq, _kind(recorded), _kind(now), "it is another event", cause)
    found = tuple(_differing("", recorded, now))[:MAX_FIELDS]
    named = ", ".join(difference.path for difference in found)
    return Difference(seq, _kind(recorded), _kind(now), f"it has another {named}", cause, found)


def _differing(path: str, recorded: Any, now: Any) -> Iterator[FieldDifference]:
    """Yields the fields that differ, the innermost ones."""
    if recorded == now:
        return
    if type(recorded) is type(now) and is_dataclass(recorded):
        for each in fields(recorded):
            if each.compare:
                inner = f"{path}.{each.name}" if path else each.name
                yield from _differing(inner, getattr(recorded, each.name), getattr(now, each.name))
    elif isinstance(recorded, tuple) and isinstance(now, tuple) and len(recorded) == len(now):
        for index, (one, other) in enumerate(zip(recorded, now, strict=True)):
            yield from _differing(f"{path}[{index}]", one, other)
    else:
        yield FieldDifference(path, shown(recorded), shown(now))


def shown(value: object) -> str:
    """Returns a value as a person reads it, at most MAX_SHOWN characters."""
    return cut(value.name if isinstance(value, IntEnum) else repr(value), MAX_SHOWN)


def _kind(event: ev.Event) -> str:
    return type(event).__name__
