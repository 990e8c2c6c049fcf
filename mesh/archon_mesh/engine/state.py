"""The state of a run: data and queries. `fold` derives it from the run's events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from archon_mesh.core.people import Breakpoint
from archon_mesh.engine.message import SentMessage
from archon_mesh.engine.plan_state import PlanState
from archon_mesh.engine.question import ClosedQuestion
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import NO_ORIGIN, NOTHING, Amount, ClockOrigin, Failure, Submission, TaskState

MAX_RECENT: Final = 10
"""Failures that a run compares to tell whether one kind repeats."""


@dataclass(slots=True)
class RunState:
    """The state of one run. Before the first event it is empty: `submission` is None. Only `apply` changes it, in
    place: a driver folds each event once, and folds the journal again if an append fails."""

    submission: Submission | None = None
    owner: str = ""
    epoch: int = 0
    state: TaskState = TaskState.UNSPECIFIED
    tasks: dict[str, Task] = field(default_factory=dict)
    root_ids: list[str] = field(default_factory=list)
    """The ids of the tasks that were not delegated, in the order of their creation."""
    incomplete: int = 0
    """How many of them have not completed."""
    live_ids: dict[str, None] = field(default_factory=dict)
    """The ids of the tasks with a live attempt."""
    answer_tasks: dict[int, str] = field(default_factory=dict)
    """The tasks of the events with a result or an item, by sequence number."""
    plan: PlanState | None = None
    """The plan of a run with strategy `plan`; None with any other."""
    messages: dict[int, SentMessage] = field(default_factory=dict)
    """The messages between tasks, by the events that hold them, in order."""
    messages_size: int = 0
    """Their bytes."""
    spent: Amount = NOTHING
    paused: bool = False
    breakpoints: tuple[Breakpoint, ...] = ()
    """The points before which the run is held."""
    at_breakpoint: bool = False
    """True while a question of a breakpoint is open: no task is dispatched, as if the run was paused."""
    clock_stopped_since: float = 0.0
    """When the run's clock was stopped (wall seconds); 0 while it runs."""
    clock_stopped_for: float = 0.0
    """How long the clock was stopped before, in seconds."""
    conversation_versions: dict[str, int] = field(default_factory=dict)
    """The version of each role's conversation that this run stored last."""
    recovered: int = 0
    """How many lost and failed attempts were, or will be, followed by another attempt."""
    recent_kinds: tuple[str, ...] = ()
    """The kinds of the run's last failures, MAX_RECENT at most."""
    responses: dict[str, str] = field(default_factory=dict)
    """The digests of people's answers, by request id."""
    closed_questions: tuple[ClosedQuestion, ...] = ()
    """The questions to people that wait no more, in the order in which they were closed."""
    ending: TaskState | None = None
    """The state that the run will end in, once its live attempts have ended; None while it goes on."""
    ending_since: float = 0.0
    failure: Failure | None = None
    answer_seqs: tuple[int, ...] = ()
    last_seq: int = 0
    latest_time: float = 0.0
    """The latest time of an event, in wall seconds of the run's clock, which never goes back."""
    origin: ClockOrigin = NO_ORIGIN
    """The origin of the present owner's clock."""
    create_time: float = 0.0
    end_time: float = 0.0

    @property
    def ended(self) -> bool:
        """True after the last event."""
        return self.state.final

    @property
    def deadline(self) -> float:
        """When the run times out, in wall seconds; while its clock is stopped, as if the clock started again now."""
        return self.create_time + self.clock_stopped_for + (self.submission.timeout if self.submission else 0.0)

    @property
    def pause_deadline(self) -> float:
        """When the run fails because its clock was stopped for too long, in wall seconds; 0 while it cannot."""
        limit = self.submission.pause_timeout if self.submission else 0.0
        return self.clock_stopped_since + limit if self.clock_stopped_since and limit else 0.0

    def ready(self, task: Task, *, paused: bool | None = None) -> bool:
        """True if the task can be dispatched as soon as an instance has a free slot. `paused` overrides that the run is
        paused, or held at a breakpoint."""
        if (self.paused or self.at_breakpoint) if paused is None else paused:
            return False
        if task.live or self.ending is not None or task.state.final or task.question or task.dormant:
            return False
        return not task.missing and not (self.plan is not None and (self.plan.is_place(task) or self.plan.holds(task)))

    def remember(self, failure: Failure) -> None:
        """Adds a failure to the last ones."""
        self.recent_kinds = (*self.recent_kinds[1 - MAX_RECENT :], failure.kind)

    def current(self, task_id: str, attempt: int) -> Task | None:
        """The task, if `attempt` is its current one and live; else None."""
        task = self.tasks.get(task_id)
        return task if task is not None and task.live and task.attempt == attempt else None

    def holder(self, task_id: str, attempt: int) -> str:
        """The instance that a current or abandoned attempt was dispatched to; empty for any other attempt."""
        task = self.tasks.get(task_id)
        if task is None:
            return ""
        return task.instance_id if attempt == task.attempt else dict(task.abandoned).get(attempt, "")

    def live_tasks(self) -> list[Task]:
        """The tasks with a live attempt."""
        return [self.tasks[task_id] for task_id in self.live_ids]

    def roots(self) -> list[Task]:
        """The tasks that were not delegated, in topological order."""
        return [self.tasks[task_id] for task_id in self.root_ids]

    def sinks(self) -> list[Task]:
        """The roots without a dependent, in order: their answers are the answers of the run."""
        return [task for task in self.roots() if not task.successors]

    def lineage(self, task: Task) -> list[Task]:
        """The chain of parents from the outermost down to the task itself."""
        chain = [task]
        while chain[-1].parent:
            chain.append(self.tasks[chain[-1].parent])
        return chain[::-1]

    def descendants(self, task: Task) -> list[Task]:
        """All tasks that were delegated by the task, directly or indirectly, in the order of creation."""
        if not task.children:
            return []
        ids = {task.task_id}
        for other in self.tasks.values():  # a child is created after its parent
            if other.parent in ids:
                ids.add(other.task_id)
        return [other for other in self.tasks.values() if other.task_id in ids and other is not task]
