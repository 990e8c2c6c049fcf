"""The state of a run and its tasks, folded from the run's events, independent of any terminal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from archon.api.common.v1 import common_pb2, plan_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.wire import to_seconds
from archon_mesh.core.run.types import GIVEN_BACK
from archon_services.cli.render.output import duration
from archon_services.cli.render.questions import (
    PendingQuestion,
    decision_text,
    pending_question,
    timed_out_text,
    truncate,
)
from archon_services.common.usage import add_usage

INPUT_REQUIRED: Final = "input required"
"""The state of a task that waits for a person, and of its run."""

INSUFFICIENT_BUDGET: Final = "budget request denied: not enough left"

_FINAL: Final = ("completed", "failed", "canceled", "rejected")
_TEXT_KEPT: Final = 2_000


def state_name(state: common_pb2.TaskState.ValueType) -> str:
    """Returns the display name of a state, such as `working` or `input required`."""
    if state not in common_pb2.TaskState.values():
        return "unknown"
    return common_pb2.TaskState.Name(state).removeprefix("TASK_STATE_").lower().replace("_", " ")


def run_state_name(run: run_pb2.Run) -> str:
    """Returns the display name of a run's state; `paused` for a run that is paused."""
    return "paused" if run.paused else state_name(run.state)


def strategy_name(strategy: run_pb2.Strategy.ValueType) -> str:
    """Returns the display name of a strategy, such as `pipeline`; `-` if it is unknown."""
    if not strategy or strategy not in run_pb2.Strategy.values():
        return "-"
    return run_pb2.Strategy.Name(strategy).removeprefix("STRATEGY_").lower()


def is_reused(task: run_pb2.Task) -> bool:
    """Whether the task's answer was taken over from a forked run: it has completed without an attempt."""
    return task.state == common_pb2.TASK_STATE_COMPLETED and not task.attempt


def task_label(task: run_pb2.Task) -> str:
    """Returns the display name of a task: its role, and its step if it executes one of a plan."""
    return _label(task.role, task.step_id)


@dataclass(slots=True)
class Calls:
    """The calls of an attempt that have been recorded so far, and what they took."""

    models: int = 0
    tools: int = 0
    usage: common_pb2.Usage = field(default_factory=common_pb2.Usage)

    def add(self, record: run_pb2.RunRecord) -> None:
        """Counts a call."""
        if record.kind == "model":
            self.models += 1
            add_usage(self.usage, record.usage)
        else:
            self.tools += 1


@dataclass(slots=True)
class TaskView:
    """One task. Times are those of the events, in seconds since the epoch; 0 if the event has not occurred."""

    task_id: str
    role: str
    parent_task_id: str = ""
    step_id: str = ""
    """The step of the plan that the task executes; empty if none."""
    purpose: str = ""
    """Of a planner's task: which plan it makes, or that it writes the answer."""
    step: plan_pb2.PlanStep | None = None
    """The step as the plan has it; None if the task executes none."""
    predecessors: tuple[str, ...] = ()
    """Ids of the tasks that must complete first, as the task's own event names them."""
    state: str = "submitted"
    attempt: int = 0
    instance: str = ""
    began: float = 0.0
    ended: float = 0.0
    text: str = ""
    """The last characters of the attempt's text."""
    thinking: str = ""
    """The last characters of the model's thinking, until text or a tool call follows it."""
    written: int = 0
    """Bytes of the attempt's text."""
    version: int = 0
    """Version of the answer in shared memory."""
    usage: common_pb2.Usage = field(default_factory=common_pb2.Usage)
    """What all attempts that have ended took."""
    usages: dict[int, common_pb2.Usage] = field(default_factory=dict)
    """What each of them took, by its number."""
    context: tuple[str, ...] = ()
    """Roles whose answers the attempt was given."""
    tool_calls: dict[str, str] = field(default_factory=dict)
    """Names of the tools that are executing, by call id."""
    last_failure: str = ""
    """The last lost instance, rejection or failure."""
    stop_reason: str = ""
    """Why the task is being stopped; empty if it is not."""
    notes: list[str] = field(default_factory=list)
    """Answered questions, and delegations that were rejected, reused or cancelled."""
    delegations: dict[str, str] = field(default_factory=dict)
    """Ids of the tasks that the current attempt delegated, by delegation id."""
    question: PendingQuestion | None = None
    """The last question; it is pending while the state is INPUT_REQUIRED."""
    result_seq: int = 0
    """The event with the result; 0 before it."""
    checkpoint_bytes: int = 0
    """Size of the last checkpoint."""
    reused: bool = False
    """Whether the answer was taken over from a forked run."""
    calls: Calls = field(default_factory=Calls)
    """Those of the attempt in progress, if they were read."""

    @property
    def label(self) -> str:
        """The display name: the role, and the step if there is one."""
        return _label(self.role, self.step_id or self.purpose)

    @property
    def final(self) -> bool:
        """Whether the task has ended."""
        return self.state in _FINAL

    @property
    def tokens(self) -> str:
        """Output tokens so far; with `~` if estimated, empty if none."""
        if self.usage.output_tokens:
            return f"{'~' if self.usage.estimated else ''}{self.usage.output_tokens:,}"
        return f"~{-(-self.written // 4):,}" if self.written else ""


class RunView:
    """A run. `apply` its events in order."""

    def __init__(self) -> None:
        self.run_id = ""
        self.state = "submitted"
        self.began = 0.0
        self.ended = 0.0
        self.failure = ""
        self.cancel_reason = ""
        self.session_context_failure = ""
        """Why the run continues without its session context; empty if it has it."""
        self.edges: list[tuple[str, str]] = []
        self.tasks: dict[str, TaskView] = {}
        self.paused = False
        self.plan: plan_pb2.Plan | None = None
        """The plan in force; None before the first one."""
        self.is_planned = False
        """Whether a planner makes a plan for the run."""
        self._delegated_ids: set[str] = set()
        self._stopped_for = 0.0
        self._stopped_since = 0.0

    def apply(self, event: run_pb2.RunEvent) -> None:
        """Folds one event into the state."""
        kind = event.WhichOneof("event") or ""
        now = to_seconds(event.time)
        self.run_id = event.run_id or self.run_id
        task = self._task(event, kind)
        self._apply_to_run(event, kind, now)
        if task is not None:
            self._apply_delegation(task, event, kind)
            _apply_to_task(task, event, kind, now)
            _spend(task, event, kind)
        if event.seq:
            self._update_clock(now)

    @property
    def questions(self) -> list[PendingQuestion]:
        """Questions that wait for an answer."""
        return [task.question for task in self.tasks.values() if task.question and task.state == INPUT_REQUIRED]

    def stopped_for(self, now: float) -> float:
        """Returns for how many seconds the run's clock has been stopped by pauses and questions."""
        return self._stopped_for + (max(0.0, now - self._stopped_since) if self._stopped_since else 0.0)

    def elapsed(self, now: float) -> float:
        """Returns the seconds on the run's clock."""
        return max(0.0, (self.ended or now) - self.began - self.stopped_for(now)) if self.began else 0.0

    @property
    def display_state(self) -> str:
        """The state of the run, derived from its tasks if no event states it: `working` or `input required`."""
        if not self.ended and self.questions:
            return INPUT_REQUIRED
        started = self.state == "submitted" and any(task.attempt for task in self.tasks.values())
        return "working" if started else self.state

    def waiting_for(self, task: TaskView) -> str:
        """Returns what blocks the task, starting with "waiting for"; empty if nothing does."""
        if self.ended or task.final:
            return ""
        if task.state == INPUT_REQUIRED:
            return "waiting for input"
        if task.state != "submitted":
            children = [self.tasks[child] for child in dict.fromkeys(task.delegations.values()) if child in self.tasks]
            roles = dict.fromkeys(child.role for child in children if not child.final)
            return f"waiting for {' and '.join(roles)}" if roles else ""
        if missing := self._missing(task):
            return f"waiting for {' and '.join(missing)}"
        return "waiting for the run to be resumed" if self.paused else f"waiting for an instance of {task.role}"

    def _missing(self, task: TaskView) -> list[str]:
        """The tasks that must complete before this one: those that it names, else those of the roles upstream."""
        if task.predecessors:
            upstream = [self.tasks[task_id] for task_id in task.predecessors if task_id in self.tasks]
            return [other.label for other in upstream if other.state != "completed"]
        roots = [other for other in self.tasks.values() if not other.parent_task_id and not other.step_id]
        completed = {other.role for other in roots if other.state == "completed"}
        edges = () if task.parent_task_id or task.step_id else self.edges
        return [upstream for upstream, role in edges if role == task.role and upstream not in completed]

    def is_repeated_delegation(self, event: run_pb2.RunEvent) -> bool:
        """Whether a `delegated` event that is not applied yet refers to a task that was already delegated."""
        return event.delegated.child_task_id in self._delegated_ids

    def _apply_to_run(self, event: run_pb2.RunEvent, kind: str, now: float) -> None:
        match kind:
            case "submitted":
                self.began = now
                self.session_context_failure = event.submitted.session_context_failure.message
                self.is_planned = event.submitted.strategy == run_pb2.STRATEGY_PLAN
                if event.submitted.strategy != run_pb2.STRATEGY_AGENT:  # its tasks don't wait for edges
                    self.edges = [(edge.upstream, edge.downstream) for edge in event.submitted.edges]
            case "run_state":
                self.state = state_name(event.run_state.state)
                self.failure = event.run_state.failure.message
                if self.state in _FINAL:
                    self._end(now)
            case "cancel_requested":
                self.cancel_reason = event.cancel_requested.reason or "no reason given"
            case "paused" | "resumed":
                self.paused = kind == "paused"
            case "planned":
                self.plan = event.planned.plan

    def _update_clock(self, now: float) -> None:
        stopped = not self.ended and (self.paused or bool(self.questions))
        if stopped and not self._stopped_since:
            self._stopped_since = now
        elif self._stopped_since and not stopped:
            self._stopped_for, self._stopped_since = self.stopped_for(now), 0.0

    def _apply_delegation(self, task: TaskView, event: run_pb2.RunEvent, kind: str) -> None:
        match kind:
            case "delegated":
                self._add_delegation(task, event.delegated)
            case "delegation_cancelled":
                child = self.tasks.get(task.delegations.pop(event.delegation_cancelled.delegation_id, ""))
                task.notes.append(f"delegation to {child.role} cancelled" if child else "delegation cancelled")

    def _add_delegation(self, task: TaskView, delegated: run_pb2.Delegated) -> None:
        if delegated.HasField("failure"):
            task.notes.append(rejected_delegation_text(delegated))
            return
        if delegated.child_task_id in self._delegated_ids:
            task.notes.append(repeated_delegation_text(delegated))
        self._delegated_ids.add(delegated.child_task_id)
        task.delegations[delegated.delegation_id] = delegated.child_task_id

    def _end(self, now: float) -> None:
        self.ended = now
        for task in self.tasks.values():
            if not task.final:  # no event states the end of tasks that the end of the run interrupts
                task.state, task.ended = "canceled", now

    def _task(self, event: run_pb2.RunEvent, kind: str) -> TaskView | None:
        task_id = event.task.task_id
        if not task_id:
            return None
        if task_id not in self.tasks:
            payload = getattr(event, kind)
            task = self.tasks[task_id] = TaskView(task_id, getattr(payload, "role", ""))
            if kind == "task_state":
                task.parent_task_id, task.step_id = payload.parent_task_id, payload.step_id
                task.predecessors = tuple(payload.predecessors)
                if self.is_planned and not task.parent_task_id:
                    self._note_purpose(task, align=payload.align)
        return self.tasks[task_id]

    def _note_purpose(self, task: TaskView, *, align: bool) -> None:
        """Notes the step that a new task executes, or what the planner's task is for."""
        if task.step_id:
            steps = self.plan.steps if self.plan is not None else ()
            task.step = next((step for step in steps if step.step_id == task.step_id), None)
        elif task.predecessors:
            task.purpose = "answer"
        elif align:
            task.purpose = f"check of plan {self.plan.revision if self.plan is not None else 1}"
        else:
            task.purpose = f"plan {self.plan.revision + 1 if self.plan is not None else 1}"


def _label(role: str, step_id: str) -> str:
    return f"{role} ({step_id})" if step_id else role


def rejected_delegation_text(delegated: run_pb2.Delegated) -> str:
    """Describes a delegation that the orchestrator rejected."""
    return f"delegation to {delegated.role} rejected: {delegated.failure.message}"


def repeated_delegation_text(delegated: run_pb2.Delegated) -> str:
    """Describes a delegation that an earlier one answers."""
    return f"delegates to {delegated.role} again: reuses the existing task"


def _apply_to_task(task: TaskView, event: run_pb2.RunEvent, kind: str, now: float) -> None:
    match kind:
        case "task_state" if event.task_state.stopping:
            task.stop_reason = event.task_state.failure.message or "no longer needed"
        case "task_state":
            task.state = state_name(event.task_state.state)
            task.last_failure = event.task_state.failure.message or task.last_failure
            if task.final:
                task.ended = now
        case "dispatched":
            _start_attempt(task, event, now)
        case "tool_event" | "text_delta" | "thinking_delta":
            if event.task.attempt == task.attempt:
                _apply_progress(task, event, kind)
        case "result":
            task.state, task.ended, task.result_seq = state_name(event.result.state), now, event.seq
            task.reused = event.result.state == common_pb2.TASK_STATE_COMPLETED and not event.task.attempt
            task.last_failure = event.result.failure.message
        case "published" if event.published.ref.seq == task.result_seq:
            task.version = event.published.ref.version
        case "checkpoint":
            task.checkpoint_bytes = event.checkpoint.size or len(event.checkpoint.data)
        case "budget_reserved" if not event.budget_reserved.HasField("budget"):
            task.last_failure = INSUFFICIENT_BUDGET
        case "input_requested" | "approval_requested" | "question_timed_out" | "input_given":
            _apply_input(task, event, kind)
        case "lost" | "retry" | "rejected":
            task.state = "submitted"
            task.last_failure = _attempt_failure(event, kind)


def _spend(task: TaskView, event: run_pb2.RunEvent, kind: str) -> None:
    """Notes what an attempt took; a result that a person has approved says it again."""
    match kind:
        case "result" | "retry" | "input_requested" | "discarded":
            usage = getattr(event, kind).usage
        case "approval_requested":
            usage = event.approval_requested.result.usage
        case _:
            return
    if usage.ListFields():
        task.usages[event.task.attempt], task.usage = usage, common_pb2.Usage()
        for each in task.usages.values():
            add_usage(task.usage, each)


def _apply_progress(task: TaskView, event: run_pb2.RunEvent, kind: str) -> None:
    if kind == "thinking_delta":
        task.thinking = (task.thinking + event.thinking_delta.text)[-_TEXT_KEPT:]
        return
    task.thinking = ""
    if kind == "text_delta":
        task.written = event.text_delta.offset + len(event.text_delta.text.encode())
        task.text = (task.text + event.text_delta.text)[-_TEXT_KEPT:]
        return
    task.tool_calls.pop(event.tool_event.call_id, None)
    if is_tool_call(event.tool_event):
        task.tool_calls[event.tool_event.call_id] = event.tool_event.tool_name


def is_tool_call(activity: run_pb2.ToolActivity) -> bool:
    """Whether a tool event is the call of the tool, not its result."""
    return bool(activity.arguments_json or not activity.result_json)


def _start_attempt(task: TaskView, event: run_pb2.RunEvent, now: float) -> None:
    task.state, task.attempt = "working", event.task.attempt
    task.instance = event.dispatched.instance_id
    task.began, task.text, task.thinking, task.written = now, "", "", 0
    task.context = tuple(ref.role if ref.seq else f"{ref.role} (session)" for ref in event.dispatched.given)
    task.delegations.clear()  # the attempt repeats those that it needs
    task.tool_calls.clear()


def _apply_input(task: TaskView, event: run_pb2.RunEvent, kind: str) -> None:
    if kind == "input_requested":
        task.state, task.question = INPUT_REQUIRED, pending_question(event.run_id, event.input_requested)
        task.checkpoint_bytes = len(event.input_requested.checkpoint) or task.checkpoint_bytes
        return
    if kind == "approval_requested":
        task.state, task.question = INPUT_REQUIRED, pending_question(event.run_id, event.approval_requested, task.role)
        return
    if kind == "question_timed_out":
        task.notes.append(timed_out_text(event.question_timed_out))
        return
    task.state = "submitted"
    question = f"question: {truncate(task.question.text)}  " if task.question is not None else ""
    task.notes.append(f"{question}answer: {decision_text(event.input_given)}")


def _attempt_failure(event: run_pb2.RunEvent, kind: str) -> str:
    match kind:
        case "lost":
            return f"{event.lost.instance_id} lost: {event.lost.failure.message}"
        case "rejected" if GIVEN_BACK in event.rejected.failure.metadata:
            return f"given back: {event.rejected.failure.message}"
        case "rejected":
            return f"rejected by {event.rejected.instance_id}: {event.rejected.failure.message}"
    delay = max(0.0, to_seconds(event.retry.not_before) - to_seconds(event.time))
    return f"failed, retry in {duration(delay)}: {event.retry.failure.message}"
