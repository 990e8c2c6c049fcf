"""Folds the events of a run into a timeline per task: its attempts, and the times between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.wire import to_seconds
from archon_mesh.core.run.types import GIVEN_BACK
from archon_services.cli.render.run_view import INPUT_REQUIRED, INSUFFICIENT_BUDGET, state_name, strategy_name
from archon_services.cli.render.waterfall.spans import Mark, Spent

WORKING: Final = "working"
FINAL: Final = frozenset({"completed", "failed", "canceled", "rejected"})


@dataclass(slots=True)
class DelegationTimes:
    """A delegation of one attempt. `end` is 0 until it is cancelled; otherwise it ends with the delegated task."""

    delegation_id: str
    child_task_id: str
    role: str
    start: float
    end: float = 0.0
    refusal: str = ""
    repeated: bool = False
    """Whether an earlier attempt created the delegated task."""


@dataclass(slots=True)
class QuestionTimes:
    """A question to a person; `end` is 0 until it is answered."""

    input_id: str
    start: float
    end: float = 0.0


@dataclass(slots=True)
class AttemptTimes:
    """One attempt; `end` is 0 while it is in progress."""

    number: int
    instance: str
    start: float
    end: float = 0.0
    status: str = WORKING
    detail: str = ""
    spent: Spent | None = None
    """None if no event states what it spent."""
    model_calls: int = 0
    """Model calls that the agent reported, recorded or not."""
    retry_time: float = 0.0
    """The earliest time of the next attempt; 0 if it may start at once."""
    delegations: list[DelegationTimes] = field(default_factory=list)
    questions: list[QuestionTimes] = field(default_factory=list)


@dataclass(slots=True)
class TaskTimes:
    """One task. `questions` are those that ended an attempt."""

    task_id: str
    role: str
    parent_task_id: str
    created: float
    ended: float = 0.0
    state: str = "submitted"
    detail: str = ""
    reused: bool = False
    attempts: list[AttemptTimes] = field(default_factory=list)
    questions: list[QuestionTimes] = field(default_factory=list)
    step_id: str = ""
    """The step of the plan that the task executes; empty if none."""
    named_predecessors: tuple[str, ...] = ()
    """Ids of the tasks that must complete first, as the task's own event names them."""

    @property
    def label(self) -> str:
        """The display name: the role, and the step if there is one."""
        return f"{self.role} ({self.step_id})" if self.step_id else self.role

    def current(self, number: int) -> AttemptTimes | None:
        """Returns the attempt of this number; the last one for 0; None if there is no such attempt."""
        return next((each for each in reversed(self.attempts) if number in (0, each.number)), None)


class Timeline:
    """A run. `apply` its durable events in order."""

    def __init__(self) -> None:
        self.run_id = ""
        self.strategy = ""
        self.started = 0.0
        self.ended = 0.0
        self.state = "submitted"
        self.detail = ""
        self.edges: list[tuple[str, str]] = []
        """Pairs of roles; empty if tasks do not wait for each other."""
        self.tasks: dict[str, TaskTimes] = {}
        self.pauses: list[tuple[float, float]] = []
        """Start and end; the end is 0 while the run is paused."""
        self.marks: list[Mark] = []
        self._owner = ""
        self._delegated: set[str] = set()
        """Ids of the tasks that were delegated."""

    def apply(self, event: run_pb2.RunEvent) -> None:
        """Folds one event. Transient events, and events of an unknown kind, change nothing."""
        kind = event.WhichOneof("event") or ""
        if not event.seq or not kind:
            return
        now = to_seconds(event.time)
        self.run_id = event.run_id or self.run_id
        if not event.task.task_id:
            self._apply_to_run(event, kind, now)
            return
        task = self._task(event, kind, now)
        if kind in ("delegated", "delegation_cancelled"):
            self._apply_delegation(task, event, kind, now)
        else:
            _apply_to_task(task, event, kind, now)

    def predecessors(self, task_id: str) -> list[str]:
        """Returns the ids of the tasks that a task waits for: those that it names, else those of the roles upstream."""
        task = self.tasks[task_id]
        if task.named_predecessors:
            return [name for name in task.named_predecessors if name in self.tasks]
        if task.parent_task_id or task.step_id:
            return []
        roots = {each.role: each.task_id for each in self.tasks.values() if not each.parent_task_id}
        return [roots[role] for role in self.upstream_roles(task.role) if role in roots]

    def upstream_roles(self, role: str) -> list[str]:
        """Returns the roles that a role waits for along the run's edges."""
        return list(dict.fromkeys(upstream for upstream, downstream in self.edges if downstream == role))

    def _apply_to_run(self, event: run_pb2.RunEvent, kind: str, now: float) -> None:
        match kind:
            case "submitted":
                submitted = event.submitted
                self.started, self.strategy, self._owner = now, strategy_name(submitted.strategy), submitted.owner
                if submitted.strategy != run_pb2.STRATEGY_AGENT:  # its tasks do not wait for edges
                    self.edges = [(edge.upstream, edge.downstream) for edge in submitted.edges]
            case "claimed":
                again = event.claimed.owner == self._owner
                self._owner = event.claimed.owner
                text = f"claimed again by {self._owner}" if again else f"taken over by {self._owner}"
                self.marks.append(Mark(now, f"{text} (epoch {event.claimed.epoch})"))
            case "cancel_requested":
                reason = event.cancel_requested.reason
                self.marks.append(Mark(now, f"cancellation requested{': ' if reason else ''}{reason}"))
            case "paused":
                self.pauses.append((now, 0.0))
                self.marks.append(Mark(now, "paused"))
            case "resumed":
                self._end_pause(now)
                self.marks.append(Mark(now, "resumed"))
            case "run_state":
                self.state = state_name(event.run_state.state)
                self.detail = event.run_state.failure.message
                if self.state in FINAL:
                    self._end(now)

    def _end_pause(self, now: float) -> None:
        if self.pauses and not self.pauses[-1][1]:
            self.pauses[-1] = (self.pauses[-1][0], now)

    def _end(self, now: float) -> None:
        """Ends everything: no event states the end of tasks that the end of the run interrupts."""
        self.ended = now
        self._end_pause(now)
        for task in self.tasks.values():
            if task.state not in FINAL:
                _end_attempt(task, 0, now, "canceled", "")
                task.state, task.ended = "canceled", now
                _end_questions(task.questions, now)

    def _task(self, event: run_pb2.RunEvent, kind: str, now: float) -> TaskTimes:
        task_id = event.task.task_id
        if task_id not in self.tasks:
            payload = getattr(event, kind)
            task = self.tasks[task_id] = TaskTimes(task_id, getattr(payload, "role", ""), "", now)
            if kind == "task_state":
                task.parent_task_id, task.step_id = payload.parent_task_id, payload.step_id
                task.named_predecessors = tuple(payload.predecessors)
        return self.tasks[task_id]

    def _apply_delegation(self, task: TaskTimes, event: run_pb2.RunEvent, kind: str, now: float) -> None:
        attempt = task.current(event.task.attempt)
        if attempt is None:
            return
        if kind == "delegation_cancelled":
            for delegation in attempt.delegations:
                if delegation.delegation_id == event.delegation_cancelled.delegation_id:
                    delegation.end = now
            return
        delegated = event.delegated
        attempt.delegations.append(
            DelegationTimes(
                delegated.delegation_id,
                delegated.child_task_id,
                delegated.role,
                now,
                refusal=delegated.failure.message or "refused" if delegated.HasField("failure") else "",
                repeated=delegated.child_task_id in self._delegated,
            )
        )
        if delegated.child_task_id:
            self._delegated.add(delegated.child_task_id)


def _apply_to_task(task: TaskTimes, event: run_pb2.RunEvent, kind: str, now: float) -> None:
    number = event.task.attempt
    match kind:
        case "dispatched":
            task.state = WORKING
            task.attempts.append(AttemptTimes(number, event.dispatched.instance_id, now))
        case "result" if event.result.state != common_pb2.TASK_STATE_INPUT_REQUIRED:
            _apply_result(task, event, now)
        case "task_state":
            _apply_state(task, event, now)
        case "retry":
            _end_attempt(task, number, now, "retried", event.retry.failure.message, _usage(event.retry))
            task.state = "submitted"
            _set_retry_time(task, number, to_seconds(event.retry.not_before))
        case "lost":
            _end_attempt(task, number, now, "lost", event.lost.failure.message)
            task.state = "submitted"
        case "rejected":
            status = "given back" if GIVEN_BACK in event.rejected.failure.metadata else "rejected"
            _end_attempt(task, number, now, status, event.rejected.failure.message)
            task.state = "submitted"
            _set_retry_time(task, number, to_seconds(event.rejected.not_before))
        case "input_requested" | "approval_requested" | "input_given":
            _apply_question(task, event, kind, now)
        case "discarded" | "budget_reserved":
            _note(task, event, kind)


def _apply_result(task: TaskTimes, event: run_pb2.RunEvent, now: float) -> None:
    result = event.result
    task.state, task.ended, task.detail = state_name(result.state), now, result.failure.message
    task.reused = result.state == common_pb2.TASK_STATE_COMPLETED and not event.task.attempt
    if not task.reused:
        _end_attempt(task, event.task.attempt, now, task.state, result.failure.message, _usage(result))


def _apply_state(task: TaskTimes, event: run_pb2.RunEvent, now: float) -> None:
    changed = event.task_state
    if changed.stopping:
        if (attempt := task.current(event.task.attempt)) is not None and not attempt.end:
            attempt.detail = f"stopping: {changed.failure.message or 'no longer needed'}"
        return
    task.state = state_name(changed.state)
    if task.state in FINAL:
        task.ended, task.detail = now, changed.failure.message
        _end_attempt(task, 0, now, task.state, changed.failure.message)
        _end_questions(task.questions, now)


def _apply_question(task: TaskTimes, event: run_pb2.RunEvent, kind: str, now: float) -> None:
    attempt = task.current(event.task.attempt)
    if kind == "input_given":
        open_ones = [*task.questions, *(each for attempt in task.attempts for each in attempt.questions)]
        _end_questions([each for each in open_ones if each.input_id == event.input_given.input_id], now)
        if task.state == INPUT_REQUIRED:
            task.state = "submitted"
        return
    if kind == "approval_requested":
        asked = event.approval_requested
        _end_attempt(task, event.task.attempt, now, "asked", "", _usage(asked.result))
        task.state = INPUT_REQUIRED
        task.questions.append(QuestionTimes(asked.input_id, now))
        return
    question = QuestionTimes(event.input_requested.input_id, now)
    if event.input_requested.sequence and attempt is not None:  # the attempt continues
        attempt.questions.append(question)
        return
    _end_attempt(task, event.task.attempt, now, "asked", "", _usage(event.input_requested))
    task.state = INPUT_REQUIRED
    task.questions.append(question)


def _note(task: TaskTimes, event: run_pb2.RunEvent, kind: str) -> None:
    attempt = task.current(event.task.attempt)
    if attempt is None:
        return
    if kind == "discarded":
        attempt.detail = attempt.detail or "its result came too late and was discarded"
        if event.discarded.HasField("usage") and not attempt.model_calls:
            attempt.spent, attempt.model_calls = Spent.of(event.discarded.usage), event.discarded.usage.model_calls
    elif not event.budget_reserved.HasField("budget"):
        attempt.detail = INSUFFICIENT_BUDGET


def _usage(
    payload: run_pb2.ResultReceived | run_pb2.RetryScheduled | run_pb2.InputRequested,
) -> common_pb2.Usage | None:
    return payload.usage if payload.HasField("usage") else None


def _set_retry_time(task: TaskTimes, number: int, time: float) -> None:
    if (attempt := task.current(number)) is not None:
        attempt.retry_time = time


def _end_attempt(
    task: TaskTimes, number: int, now: float, status: str, detail: str, usage: common_pb2.Usage | None = None
) -> None:
    """Ends the attempt, unless an earlier event has; attempt 0 is the last one."""
    attempt = task.current(number)
    if attempt is None or attempt.end:
        return
    attempt.end, attempt.status, attempt.detail = now, status, detail or attempt.detail
    _end_questions(attempt.questions, now)
    if usage is not None:
        attempt.spent = Spent.of(usage)
        attempt.model_calls = usage.model_calls


def _end_questions(questions: Iterable[QuestionTimes], now: float) -> None:
    for question in questions:
        question.end = question.end or now
