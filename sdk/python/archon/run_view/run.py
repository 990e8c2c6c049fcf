"""The view of a run, folded from its events."""

from __future__ import annotations

from dataclasses import dataclass, field

from archon.api.orchestrator.v1 import run_pb2
from archon.run_view import convert
from archon.run_view.message import Messages
from archon.run_view.question import Question
from archon.run_view.task import TaskView, Wait, WaitKind
from archon.run_view.task_events import apply_to_task, end_task
from archon.types.breakpoint import RunBreakpoint
from archon.types.failure import Failure
from archon.types.plan import Plan
from archon.types.run_event import RunEvent
from archon.types.task_state import TaskState
from archon.types.usage import Usage
from archon.wire import to_seconds


@dataclass(slots=True)
class Pause:
    """A pause of a run; `ended` is 0 if the run was not resumed."""

    started: float
    ended: float = 0.0


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a run under a new epoch; `previous` is the owner before, the same one after a restart."""

    time: float
    owner: str
    epoch: int
    previous: str


@dataclass(slots=True)
class RunView:
    """A run as its events tell it: `apply` them in order, from the first one on. Times are the event times, in
    seconds since the epoch; 0 if the event has not occurred."""

    run_id: str = ""
    strategy: str = ""
    """`pipeline`, `agent` or `plan`."""
    state: TaskState = TaskState.SUBMITTED
    """WORKING from the first dispatch on, INPUT_REQUIRED while a question is open."""
    started: float = 0.0
    ended: float = 0.0
    failure: Failure | None = None
    cancel_requested: float = 0.0
    cancel_reason: str = ""
    session_context_failure: Failure | None = None
    """Why the run continues without its session context; None if it has it."""
    edges: list[tuple[str, str]] = field(default_factory=list)
    """Pairs of roles: tasks of the second one wait for the first one. Empty if tasks do not wait for each other."""
    tasks: dict[str, TaskView] = field(default_factory=dict)
    """The tasks by id, in the order of their creation."""
    plan: Plan | None = None
    """The plan in force; None before the first one."""
    messages: Messages = field(default_factory=Messages)
    """The messages between tasks, in order."""
    breakpoints: tuple[str, ...] = ()
    """The points before which the run is held, such as `tool:pay`."""
    pauses: list[Pause] = field(default_factory=list)
    owner: str = ""
    """Id of the owner's process."""
    claims: list[Claim] = field(default_factory=list)
    last_seq: int = 0
    """Sequence number of the last durable event that was applied."""
    _asking: dict[str, TaskView] = field(default_factory=dict, init=False, repr=False)
    """The tasks with an open question, by id: an event does not search all tasks for them."""
    _given_plan_task: str = field(default="", init=False, repr=False)
    """The task that stands for a planner if the plan came with the submit."""
    _dispatched: bool = field(default=False, init=False, repr=False)
    _stopped_for: float = field(default=0.0, init=False, repr=False)
    _stopped_since: float = field(default=0.0, init=False, repr=False)

    def apply(self, event: RunEvent) -> None:
        """Folds one event. One that was applied before, or is of an unknown kind, changes nothing."""
        self._apply(event.proto)

    def _apply(self, event: run_pb2.RunEvent) -> None:
        if event.seq and event.seq <= self.last_seq:
            return
        self.last_seq = event.seq or self.last_seq
        kind = event.WhichOneof("event")
        if kind is None:
            return
        now = to_seconds(event.time)
        self.run_id = event.run_id or self.run_id
        self._apply_to_run(event, kind, now)
        if event.task.task_id and event.task.task_id != self._given_plan_task:
            self._apply_to_task(event, kind, now)
            self.messages.apply(event, kind)
            if kind == "result" and event.result.messages_read:
                task = self.tasks[event.task.task_id]
                self.messages.note_read(task.task_id, task.role, task.step_id, event.result.messages_read)
        if event.seq:
            self._update_clock(now)

    @property
    def paused(self) -> bool:
        """Whether the run is paused: no task is dispatched until it is resumed."""
        return not self.ended and bool(self.pauses) and not self.pauses[-1].ended

    @property
    def questions(self) -> list[Question]:
        """The open questions, oldest first."""
        return [task.question for task in self._asking.values() if task.question is not None]

    @property
    def usage(self) -> Usage:
        """The usage of all attempts, as far as events have it."""
        return sum((task.usage for task in self.tasks.values()), Usage())

    def stopped_for(self, now: float) -> float:
        """Returns for how many seconds the run's clock has been stopped by pauses and questions."""
        return self._stopped_for + (max(0.0, now - self._stopped_since) if self._stopped_since else 0.0)

    def elapsed(self, now: float) -> float:
        """Returns the seconds on the run's clock."""
        return max(0.0, (self.ended or now) - self.started - self.stopped_for(now)) if self.started else 0.0

    def predecessors(self, task: TaskView) -> list[TaskView]:
        """Returns the tasks that must complete before a task: the named ones, else the tasks of the roles upstream."""
        if task.predecessors:
            return [self.tasks[task_id] for task_id in task.predecessors if task_id in self.tasks]
        upstream = [upstream for upstream, downstream in self.edges if downstream == task.role]
        if not upstream or task.parent_task_id or task.step_id:
            return []
        roots = {other.role: other for other in self.tasks.values() if not other.parent_task_id and not other.step_id}
        return [roots[role] for role in upstream if role in roots]

    def waiting_for(self, task: TaskView) -> Wait | None:
        """Returns why a task waits; None if it waits for nothing."""
        if self.ended or task.final:
            return None
        if task.state is TaskState.INPUT_REQUIRED:
            return Wait(WaitKind.PERSON)
        submitted = task.state is TaskState.SUBMITTED
        missing = (other.label for other in self.predecessors(task) if other.state is not TaskState.COMPLETED)
        if names := tuple(missing) if submitted else self._delegates(task):
            return Wait(WaitKind.TASKS, names)
        return Wait(WaitKind.RESUME if self.paused else WaitKind.INSTANCE) if submitted else None

    def _delegates(self, task: TaskView) -> tuple[str, ...]:
        """Returns the roles whose answers to its delegations an attempt waits for."""
        delegations = task.attempt.delegations if task.attempt is not None else []
        children = [self.tasks.get(each.child_task_id) for each in delegations if not each.cancelled]
        return tuple(dict.fromkeys(child.role for child in children if child is not None and not child.final))

    def _apply_to_run(self, event: run_pb2.RunEvent, kind: str, now: float) -> None:
        match kind:
            case "submitted":
                self.started, self.owner = now, event.submitted.owner
                self.strategy = convert.strategy_name(event.submitted.strategy)
                self._given_plan_task = f"{event.run_id}.1" if event.submitted.without_planner else ""
                self.session_context_failure = convert.failure(event.submitted.session_context_failure)
                if self.strategy != "agent":  # its tasks do not wait for edges
                    self.edges = [(edge.upstream, edge.downstream) for edge in event.submitted.edges]
            case "claimed":
                self.claims.append(Claim(now, event.claimed.owner, event.claimed.epoch, self.owner))
                self.owner = event.claimed.owner
            case "cancel_requested":
                self.cancel_requested, self.cancel_reason = now, event.cancel_requested.reason
            case "paused" if not self.paused:
                self.pauses.append(Pause(now))
            case "resumed" if self.paused:
                self.pauses[-1].ended = now
            case "breakpoints_set":
                self.breakpoints = tuple(RunBreakpoint(each).text for each in event.breakpoints_set.breakpoints)
            case "planned":
                self.plan = Plan.from_proto(event.planned.plan, event.planned.reason)
            case "run_state" if (state := TaskState.from_proto(event.run_state.state)).final:
                self._end(state, convert.failure(event.run_state.failure), now)

    def _end(self, state: TaskState, failure: Failure | None, now: float) -> None:
        """Ends everything: no event states the end of tasks that the end of the run interrupts."""
        self.state, self.failure, self.ended = state, failure, now
        self._asking.clear()
        for task in self.tasks.values():
            if not task.final:
                end_task(task, now, TaskState.CANCELED)

    def _apply_to_task(self, event: run_pb2.RunEvent, kind: str, now: float) -> None:
        task = self.tasks.get(event.task.task_id)
        if task is None:
            task = self.tasks[event.task.task_id] = self._new_task(event, kind, now)
        apply_to_task(task, event, kind, now)
        self._dispatched = self._dispatched or kind == "dispatched"
        if task.question is not None:
            self._asking[task.task_id] = task
        else:
            self._asking.pop(task.task_id, None)

    def _new_task(self, event: run_pb2.RunEvent, kind: str, now: float) -> TaskView:
        task, created = TaskView(event.task.task_id, getattr(getattr(event, kind), "role", ""), now), event.task_state
        task.parent_task_id, task.step_id = created.parent_task_id, created.step_id
        task.predecessors = tuple(created.predecessors)
        steps, revision = (self.plan.steps, self.plan.revision) if self.plan is not None else ((), 0)
        if task.step_id:
            task.step = next((step for step in steps if step.step_id == task.step_id), None)
        elif kind == "task_state" and self.strategy == "plan" and not task.parent_task_id:
            made = f"check of plan {revision or 1}" if created.align else f"plan {revision + 1}"
            task.purpose = "answer" if task.predecessors else made
        return task

    def _update_clock(self, now: float) -> None:
        if not self.ended:
            started = TaskState.WORKING if self._dispatched else TaskState.SUBMITTED
            self.state = TaskState.INPUT_REQUIRED if self._asking else started
        stopped = not self.ended and (self.paused or bool(self._asking))
        if stopped and not self._stopped_since:
            self._stopped_since = now
        elif self._stopped_since and not stopped:
            self._stopped_for, self._stopped_since = self.stopped_for(now), 0.0
