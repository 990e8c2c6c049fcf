"""A run as it stands: what folding its events gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from archon_mesh.core.run import events as ev
from archon_mesh.core.run.decide import human_input as pausing
from archon_mesh.core.run.decide.recovery import CONVERSATION_MOVED
from archon_mesh.core.run.fold import attempt as applied
from archon_mesh.core.run.task import Task
from archon_mesh.core.run.types import NO_LIMIT, NOTHING, Amount, Failure, Submission, TaskState


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
    """The run's own tasks, those that nobody delegated."""
    spent: Amount = NOTHING
    paused: bool = False
    standing_since: float = 0.0
    """When its clock was stopped (wall seconds), 0 while it goes; `stood` is how long it stood before, in seconds."""
    stood: float = 0.0
    remembered: dict[str, int] = field(default_factory=dict)
    """The version of a role's conversation that this run stored last, by role."""
    recovered: int = 0
    """Lost and failed attempts that were given out again, or are to be."""
    responses: dict[str, str] = field(default_factory=dict)
    """What people answered, by request id, as its digest."""
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
        """When the run's time is over, in wall seconds; while its clock stands, as if it went on now."""
        return self.create_time + self.stood + (self.submission.timeout if self.submission else 0.0)

    def ready(self, task: Task, *, paused: bool | None = None) -> bool:
        """True where the task may be given out as soon as somebody has room; `paused`: as if it were so."""
        if self.paused if paused is None else paused:
            return False
        if task.live or self.ending is not None or task.state.final or task.question:
            return False
        for name in task.predecessors:  # noqa: SIM110 - asked in every step
            if self.tasks[name].state is not TaskState.COMPLETED:
                return False
        return True

    def current(self, name: str, attempt: int) -> Task | None:
        """The task whose attempt that is, where it is the current one and under way."""
        task = self.tasks.get(name)
        return task if task is not None and task.live and task.attempt == attempt else None

    def live_tasks(self) -> list[Task]:
        """Tasks with an attempt that is under way."""
        return [task for task in self.tasks.values() if task.live]

    def roots(self) -> list[Task]:
        """The run's own tasks, in topological order."""
        return [task for task in self.tasks.values() if not task.parent]

    def sinks(self) -> list[Task]:
        """The tasks nobody depends on, in order: theirs are the run's answers."""
        wanted = {name for task in self.tasks.values() for name in task.predecessors}
        return [task for task in self.roots() if task.task_id not in wanted]

    def lineage(self, task: Task) -> list[Task]:
        """The task and whoever delegated it, outermost first."""
        above = [task]
        while above[-1].parent:
            above.append(self.tasks[above[-1].parent])
        return above[::-1]

    def descendants(self, task: Task) -> list[Task]:
        """Whatever came of the task's delegations, in the order it was made."""
        below = {task.task_id}
        for other in self.tasks.values():  # a child is made after its parent
            if other.parent in below:
                below.add(other.task_id)
        return [other for other in self.tasks.values() if other.task_id in below and other is not task]

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
    if event.parent:
        return  # it was made as it was delegated
    upstream = [edge.upstream for edge in run.submission.edges if edge.downstream == event.role]
    before = tuple(run.by_role[role] for role in run.submission.roles if role in upstream)
    run.tasks[event.task_id] = Task(event.task_id, event.role, before)
    run.by_role[event.role] = event.task_id


def _input_requested(run: RunState, event: ev.InputRequested, time: float) -> None:
    pausing.input_requested(run, event, time)
    _spend(run, run.tasks[event.task_id], event.spent)


def _dispatched(run: RunState, event: ev.Dispatched, time: float) -> None:
    task = run.tasks[event.task_id]
    task.attempt, task.live, task.state = event.attempt, True, TaskState.WORKING
    task.instance_id, task.dispatch_epoch, task.given = event.instance_id, event.epoch, event.given
    task.start_time, task.conversation = time, event.conversation
    if event.reserved is not None:
        task.reserved = event.reserved
    task.new_attempt()


def _spend(run: RunState, task: Task, spent: Amount) -> None:
    """Settles what was reserved for the attempt."""
    assert run.submission is not None
    if run.submission.budget == NO_LIMIT and all(above.budget == NO_LIMIT for above in run.lineage(task)):
        return
    task.reserved, task.spent, run.spent = NOTHING, task.spent + spent, run.spent + spent


def _end_task(task: Task, state: TaskState, failure: Failure | None, time: float) -> None:
    task.live, task.stopping, task.state, task.end_time = False, False, state, time
    task.failure = failure or task.failure


def _begin_ending(run: RunState, state: TaskState, failure: Failure | None, time: float) -> None:
    if run.ending is None:
        run.ending, run.failure, run.ending_since = state, failure, time


def _result(run: RunState, event: ev.ResultReceived, time: float) -> None:
    task = run.tasks[event.task_id]
    _end_task(task, event.state, event.failure, time)
    task.result_seq, task.payload = run.last_seq, event.payload
    _spend(run, task, event.spent)
    if event.remembered and task.conversation is not None:
        run.remembered[task.role] = task.conversation + 1
    if task.parent:
        return
    if event.state is not TaskState.COMPLETED:
        _begin_ending(run, TaskState.FAILED, event.failure, time)
    elif all(root.state is TaskState.COMPLETED for root in run.roots()):
        _begin_ending(run, TaskState.COMPLETED, None, time)


def _discarded(run: RunState, event: ev.Discarded, time: float) -> None:
    task = run.tasks.get(event.task_id)
    if task is not None and task.live and task.attempt == event.attempt:
        _spend(run, task, task.reserved)
        _end_task(task, TaskState.CANCELED, None, time)


def _lost(run: RunState, event: ev.Lost, time: float) -> None:
    task = run.tasks[event.task_id]
    task.give_up()
    task.state = TaskState.SUBMITTED
    task.losses += 1
    run.recovered += 1
    _spend(run, task, task.reserved)  # nobody knows how much of it


def _retried(run: RunState, event: ev.Retried, time: float) -> None:
    task = run.tasks[event.task_id]
    task.live, task.state, task.not_before = False, TaskState.SUBMITTED, event.not_before
    _spend(run, task, event.spent)
    task.failures = (*task.failures, event.payload)
    if event.failure.reason == CONVERSATION_MOVED:
        task.outdated += 1
        if not task.questions:  # it begins anew, with what was said meanwhile; what people answered isn't asked again
            task.checkpoint = None
        return
    task.retries += 1
    run.recovered += 1


def _rejected(run: RunState, event: ev.Rejected, time: float) -> None:
    task = run.tasks[event.task_id]
    task.live, task.state = False, TaskState.SUBMITTED
    task.rejects += 1
    task.reserved = NOTHING
    task.not_before = event.not_before


def _task_stopping(run: RunState, event: ev.TaskStopping, time: float) -> None:
    task = run.tasks[event.task_id]
    task.stopping, task.failure = True, event.failure


def _task_ended(run: RunState, event: ev.TaskEnded, time: float) -> None:
    task = run.tasks[event.task_id]
    if task.live:
        task.give_up()
        _spend(run, task, task.reserved)
    _end_task(task, event.state, event.failure, time)
    if event.state is TaskState.FAILED and not task.parent:
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


_CAUSES = {
    "RUN_TIMEOUT": "DEADLINE_EXCEEDED",
    "TOO_MANY_EVENTS": "RESOURCE_EXHAUSTED",
    "BUDGET_EXHAUSTED": "RESOURCE_EXHAUSTED",
}

_Step = Callable[[RunState, Any, float], None]
_FOLD: dict[type, _Step] = {
    ev.Submitted: _submitted,
    ev.Claimed: _claimed,
    ev.TaskCreated: _task_created,
    ev.Dispatched: _dispatched,
    ev.Delegated: applied.delegated,
    ev.DelegationCancelled: applied.delegation_cancelled,
    ev.BudgetReserved: applied.budget_reserved,
    ev.ResultReceived: _result,
    ev.InputRequested: _input_requested,
    ev.InputGiven: pausing.input_given,
    ev.CheckpointTaken: applied.checkpoint_taken,
    ev.Paused: pausing.paused,
    ev.Resumed: pausing.resumed,
    ev.Discarded: _discarded,
    ev.Lost: _lost,
    ev.Rejected: _rejected,
    ev.Retried: _retried,
    ev.TaskStopping: _task_stopping,
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
