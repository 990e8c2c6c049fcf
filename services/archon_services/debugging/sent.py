"""The material of each attempt: the task that it was sent, the versions of answers in it, and the prompts that its
agent has recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import ArchonError
from archon.types import RunRecord
from archon.wire import described
from archon_mesh.engine import RunState, apply
from archon_mesh.engine import events as ev
from archon_services.debugging.recorded import DebuggedRun
from archon_services.orchestrator.convert import event_from_proto, event_time
from archon_services.orchestrator.dispatch.assign_task import assign_task

Attempt = tuple[str, int]
"""A task and the number of the attempt."""


@dataclass(frozen=True, slots=True)
class MemoryRead:
    """An answer that an attempt was sent, of event `seq` of this run, or of an earlier run of the session (`run_id`).
    `version` is that in the shared memory, 0 if it was not stored there up to the event that is looked at."""

    role: str
    seq: int
    run_id: str
    version: int
    text: str
    stored_seq: int = 0
    """The event that stored the version; 0 if the version is not of this run."""


class SentTasks:
    """The material that the attempts of a run were sent. The engine folds the run once, when it is asked for first."""

    def __init__(self, run: DebuggedRun) -> None:
        self._run = run
        self._assigned: dict[Attempt, agent_pb2.AssignTask] | None = None
        self.fault = ""
        """Why the engine could fold the run only in part; empty if it could fold all of it."""
        counts = (event.proto.recorded.count if event.type == "recorded" else 0 for event in run.events)
        self._recorded = list(accumulate(counts))
        """The number of calls that were recorded up to each event."""

    def task(self, task_id: str, attempt: int) -> agent_pb2.AssignTask | None:
        """Returns the task as an attempt was sent it, without the history of a stateful role's session, which the run
        does not have; None if the engine of today cannot fold the run up to there."""
        if self._assigned is None:
            self._assigned = {}
            try:
                self._fold(self._assigned)
            except ArchonError as error:
                self.fault = error.message
            except (KeyError, AssertionError, AttributeError, TypeError, ValueError) as error:
                self.fault = f"an event contradicts those before it: {error!r}"
        return self._assigned.get((task_id, attempt))

    def records(self, seq: int, task_id: str = "", attempt: int = 0) -> list[RunRecord]:
        """Returns the calls that were recorded up to event `seq`; only the calls of a task, or an attempt, if given."""
        recorded = self._recorded[seq - 1]
        return [
            record
            for record in self._run.records
            if record.ordinal <= recorded
            and (not task_id or record.task.task_id == task_id)
            and (not attempt or record.task.attempt == attempt)
        ]

    def _fold(self, assigned: dict[Attempt, agent_pb2.AssignTask]) -> None:
        state = RunState()
        for event in self._run.events:
            fact, time = event_from_proto(event.proto), event_time(event.proto)
            apply(state, fact, time)
            if isinstance(fact, ev.Dispatched):
                assigned[fact.task_id, fact.attempt] = assign_task(state, state.tasks[fact.task_id], time)


def memory_reads(run: DebuggedRun, seq: int, task_id: str, attempt: int) -> list[MemoryRead]:
    """Returns the answers that an attempt was sent with its task, in the order in which it was sent them. `seq` is the
    event up to which versions are known. Empty if the attempt was not dispatched up to there."""
    for event in reversed(run.events[:seq]):
        task = event.task
        if event.type == "dispatched" and task is not None and (task.task_id, task.attempt) == (task_id, attempt):
            return list(_reads(run, seq, event.proto.dispatched.given))
    return []


def _reads(run: DebuggedRun, seq: int, given: Sequence[common_pb2.MemoryRef]) -> Iterator[MemoryRead]:
    stored = {
        event.proto.published.ref.seq: (event.proto.published.ref.version, event.seq)
        for event in run.events[:seq]
        if event.type == "published"
    }
    for ref in given:
        if ref.seq and ref.run_id in ("", run.run_id):
            version, stored_seq = stored.get(ref.seq, (ref.version, 0))
            if not version and (known := run.memory.get((ref.role, ref.seq))) is not None:
                version = known.version
            yield MemoryRead(ref.role, ref.seq, run.run_id, version, _text_of(run, ref.seq), stored_seq)
        else:
            yield MemoryRead(ref.role, ref.seq, ref.run_id, ref.version, _session_text(run, ref))


def _text_of(run: DebuggedRun, seq: int) -> str:
    event = run.event(seq).proto if 0 < seq <= run.last_seq else run_pb2.RunEvent()
    parts = event.item_published.parts if event.HasField("item_published") else event.result.output
    return described(parts)


def _session_text(run: DebuggedRun, ref: common_pb2.MemoryRef) -> str:
    for context in run.event(1).proto.submitted.session_context:
        item = context.item
        if (item.ref.role, item.ref.version) == (ref.role, ref.version):
            return described(item.parts)
    return ""
