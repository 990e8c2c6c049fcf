"""A run as it stands: what folding its events gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from archon_mesh.core.run import events as ev
from archon_mesh.core.run.common import Failure, Given, Payload, Submission, TaskState


@dataclass(slots=True)
class Task:
    """One role's part. `attempt` counts dispatches, `losses` those that ended with the loss of their process."""

    task_id: str
    role: str
    predecessors: tuple[str, ...]
    state: TaskState = TaskState.SUBMITTED
    attempt: int = 0
    live: bool = False
    instance_id: str = ""
    dispatch_epoch: int = 0
    given: tuple[Given, ...] = ()
    losses: int = 0
    rejects: int = 0
    not_before: float = 0.0
    result_seq: int = 0
    payload: Payload = field(default=None, compare=False)
    failure: Failure | None = None
    memory_version: int = 0
    start_time: float = 0.0
    end_time: float = 0.0

    @property
    def ended(self) -> bool:
        """True where the task needs nothing more."""
        return self.state.final


@dataclass(slots=True)
class RunState:
    """A run. Before its first event it is empty: `submission` is None. `apply` is the fold's step; it changes the
    state in place, since a driver folds each event once and rebuilds from the journal where an append fails."""

    submission: Submission | None = None
    owner: str = ""
    epoch: int = 0
    state: TaskState = TaskState.UNSPECIFIED
    tasks: dict[str, Task] = field(default_factory=dict)
    by_role: dict[str, str] = field(default_factory=dict)
    ending: TaskState | None = None
    ending_since: float = 0.0
    failure: Failure | None = None
    answer_seqs: tuple[int, ...] = ()
    last_seq: int = 0
    create_time: float = 0.0
    end_time: float = 0.0

    @property
    def ended(self) -> bool:
        """True after the last event."""
        return self.state.final

    @property
    def deadline(self) -> float:
        """When the run's time is over, in wall seconds."""
        return self.create_time + (self.submission.timeout if self.submission else 0.0)

    def ready(self, task: Task) -> bool:
        """True where the task may be given out as soon as somebody has room."""
        return (
            not task.live
            and not task.ended
            and self.ending is None
            and all(self.tasks[name].state is TaskState.COMPLETED for name in task.predecessors)
        )

    def live_tasks(self) -> list[Task]:
        """Tasks with an attempt that is under way."""
        return [task for task in self.tasks.values() if task.live]

    def sinks(self) -> list[Task]:
        """The tasks nobody depends on, in order: theirs are the run's answers."""
        wanted = {name for task in self.tasks.values() for name in task.predecessors}
        return [task for task in self.tasks.values() if task.task_id not in wanted]

    def apply(self, event: ev.Event, time: float) -> None:
        """Folds one event that was decided at `time` (wall seconds)."""
        self.last_seq += 1
        _FOLD[type(event)](self, event, time)


def _submitted(run: RunState, event: ev.Submitted, time: float) -> None:
    run.submission, run.owner, run.epoch = event.submission, event.owner, event.epoch
    run.state, run.create_time = TaskState.WORKING, time


def _claimed(run: RunState, event: ev.Claimed, time: float) -> None:
    run.owner, run.epoch = event.owner, event.epoch


def _task_created(run: RunState, event: ev.TaskCreated, time: float) -> None:
    assert run.submission is not None
    upstream = [edge.upstream for edge in run.submission.edges if edge.downstream == event.role]
    before = tuple(run.by_role[role] for role in run.submission.roles if role in upstream)
    run.tasks[event.task_id] = Task(event.task_id, event.role, before)
    run.by_role[event.role] = event.task_id


def _dispatched(run: RunState, event: ev.Dispatched, time: float) -> None:
    task = run.tasks[event.task_id]
    task.attempt, task.live, task.state = event.attempt, True, TaskState.WORKING
    task.instance_id, task.dispatch_epoch, task.given = event.instance_id, event.epoch, event.given
    task.start_time = time


def _end_task(task: Task, state: TaskState, failure: Failure | None, time: float) -> None:
    task.live, task.state, task.failure, task.end_time = False, state, failure, time


def _begin_ending(run: RunState, state: TaskState, failure: Failure | None, time: float) -> None:
    if run.ending is None:
        run.ending, run.failure, run.ending_since = state, failure, time


def _result(run: RunState, event: ev.ResultReceived, time: float) -> None:
    task = run.tasks[event.task_id]
    _end_task(task, event.state, event.failure, time)
    task.result_seq, task.payload = run.last_seq, event.payload
    if event.state is not TaskState.COMPLETED:
        _begin_ending(run, TaskState.FAILED, event.failure, time)


def _discarded(run: RunState, event: ev.Discarded, time: float) -> None:
    task = run.tasks.get(event.task_id)
    if task is not None and task.live and task.attempt == event.attempt:
        _end_task(task, TaskState.CANCELED, None, time)


def _lost(run: RunState, event: ev.Lost, time: float) -> None:
    task = run.tasks[event.task_id]
    task.live, task.state = False, TaskState.SUBMITTED
    task.losses += 1


def _rejected(run: RunState, event: ev.Rejected, time: float) -> None:
    task = run.tasks[event.task_id]
    task.live, task.state = False, TaskState.SUBMITTED
    task.rejects += 1
    task.not_before = event.not_before


def _task_ended(run: RunState, event: ev.TaskEnded, time: float) -> None:
    _end_task(run.tasks[event.task_id], event.state, event.failure, time)
    if event.state is TaskState.FAILED:
        _begin_ending(run, TaskState.FAILED, event.failure, time)


def _cancel_requested(run: RunState, event: ev.CancelRequested, time: float) -> None:
    code = _CAUSES.get(event.cause, "CANCELLED")
    state = TaskState.CANCELED if code == "CANCELLED" else TaskState.FAILED
    _begin_ending(run, state, Failure(code, event.cause, event.reason), time)


def _published(run: RunState, event: ev.Published, time: float) -> None:
    run.tasks[event.task_id].memory_version = event.version


def _recorded(run: RunState, event: ev.Recorded, time: float) -> None:
    """Records stand beside the journal; the state doesn't change."""


def _run_ended(run: RunState, event: ev.RunEnded, time: float) -> None:
    run.state, run.failure, run.answer_seqs, run.end_time = event.state, event.failure, event.answer_seqs, time


_CAUSES = {"RUN_TIMEOUT": "DEADLINE_EXCEEDED", "TOO_MANY_EVENTS": "RESOURCE_EXHAUSTED"}

_Step = Callable[[RunState, Any, float], None]
_FOLD: dict[type, _Step] = {
    ev.Submitted: _submitted,
    ev.Claimed: _claimed,
    ev.TaskCreated: _task_created,
    ev.Dispatched: _dispatched,
    ev.ResultReceived: _result,
    ev.Discarded: _discarded,
    ev.Lost: _lost,
    ev.Rejected: _rejected,
    ev.TaskEnded: _task_ended,
    ev.CancelRequested: _cancel_requested,
    ev.Published: _published,
    ev.Recorded: _recorded,
    ev.RunEnded: _run_ended,
}


def fold(events: Iterable[tuple[ev.Event, float]]) -> RunState:
    """The state after (event, time) pairs, in order."""
    run = RunState()
    for event, time in events:
        run.apply(event, time)
    return run
