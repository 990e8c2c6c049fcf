"""A run as its events tell it: folded into what a person wants to see. Knows no terminal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_services.cli.render.output import duration
from archon_services.cli.render.questions import Asked, asked_of, shortened, words_of

_TAIL: Final = 2_000
_FINAL: Final = ("completed", "failed", "canceled", "rejected")
ASKING: Final = "input required"
"""The state of a task that waits for a person, and of its run."""


def state_name(state: common_pb2.TaskState.ValueType) -> str:
    """As people read it: `working`, `input required`."""
    if state not in common_pb2.TaskState.values():
        return "unknown"
    return common_pb2.TaskState.Name(state).removeprefix("TASK_STATE_").lower().replace("_", " ")


@dataclass(slots=True)
class TaskView:
    """One task. Times are those of the events, in wall seconds; 0 where there is none."""

    task_id: str
    role: str
    parent_task_id: str = ""
    state: str = "submitted"
    attempt: int = 0
    instance: str = ""
    began: float = 0.0
    ended: float = 0.0
    text: str = ""
    """The end of what the attempt has written so far."""
    written: int = 0
    """Bytes of the attempt's text so far."""
    version: int = 0
    usage: common_pb2.Usage = field(default_factory=common_pb2.Usage)
    given: tuple[str, ...] = ()
    calls: dict[str, str] = field(default_factory=dict)
    """Tools that are called now, by call."""
    remark: str = ""
    """What went wrong last: an instance lost, a refusal, a failure."""
    stopping: str = ""
    """Why it is to stop, where it is and hasn't yet."""
    notes: list[str] = field(default_factory=list)
    """What became of delegations, where it isn't the usual."""
    delegated: dict[str, str] = field(default_factory=dict)
    """The tasks whose answers the attempt has asked for, by the name it gave each delegation."""

    asked: Asked | None = None
    """What it asked last; it is still asked while the state is ASKING."""
    saved: int = 0
    """Bytes of the last checkpoint."""

    @property
    def final(self) -> bool:
        """Nothing more will come of it."""
        return self.state in _FINAL

    @property
    def tokens(self) -> str:
        """Written so far or in all; `~` before an estimate."""
        if self.usage.output_tokens:
            return f"{'~' if self.usage.estimated else ''}{self.usage.output_tokens:,}"
        return f"~{-(-self.written // 4):,}" if self.written else ""


class RunView:
    """Feed it the events of one run, in order."""

    def __init__(self) -> None:
        self.run_id = ""
        self.state = "submitted"
        self.began = 0.0
        self.ended = 0.0
        self.failure = ""
        self.cancelling = ""
        self.lacking = ""
        """Why it goes on without what its session remembers; empty: it doesn't."""
        self.edges: list[tuple[str, str]] = []
        self.tasks: dict[str, TaskView] = {}
        self.paused = False
        self._asked_for: set[str] = set()
        self._stood = 0.0
        self._standing_since = 0.0

    def apply(self, event: run_pb2.RunEvent) -> None:
        """One more event."""
        kind = event.WhichOneof("event") or ""
        now = event.time.ToNanoseconds() / 1e9
        self.run_id = event.run_id or self.run_id
        task = self._task(event, kind)
        match kind:
            case "submitted":
                self.began = now
                self.lacking = event.submitted.session_context_failure.message
                if event.submitted.strategy != run_pb2.STRATEGY_AGENT:  # there edges hold nothing back
                    self.edges = [(edge.upstream, edge.downstream) for edge in event.submitted.edges]
            case "run_state":
                self.state = state_name(event.run_state.state)
                self.failure = event.run_state.failure.message
                if self.state in _FINAL:
                    self._end(now)
            case "cancel_requested":
                self.cancelling = event.cancel_requested.reason or "somebody asked for it"
            case "delegated" if task is not None:
                self._delegated(task, event.delegated)
            case "delegation_cancelled" if task is not None:
                child = self.tasks.get(task.delegated.pop(event.delegation_cancelled.delegation_id, ""))
                task.notes.append(f"needs {child.role if child else 'a delegation'} no more")
            case "paused" | "resumed":
                self.paused = kind == "paused"
            case _ if task is not None:
                _apply(task, event, kind, now)
        if event.seq:
            self._clock(now)

    @property
    def questions(self) -> list[Asked]:
        """What people are asked."""
        return [task.asked for task in self.tasks.values() if task.asked and task.state == ASKING]

    def stood(self, now: float) -> float:
        """Seconds that its clock has stood still so far, because it was paused or a person was asked."""
        return self._stood + (max(0.0, now - self._standing_since) if self._standing_since else 0.0)

    def elapsed(self, now: float) -> float:
        """Seconds by its clock."""
        return max(0.0, (self.ended or now) - self.began - self.stood(now)) if self.began else 0.0

    def _clock(self, now: float) -> None:
        standing = not self.ended and (self.paused or bool(self.questions))
        if standing and not self._standing_since:
            self._standing_since = now
        elif self._standing_since and not standing:
            self._stood, self._standing_since = self.stood(now), 0.0

    @property
    def shown_state(self) -> str:
        """As the run's, but for what no event says: it asks a person, or has a task under way."""
        if not self.ended and self.questions:
            return ASKING
        under_way = self.state == "submitted" and any(task.attempt for task in self.tasks.values())
        return "working" if under_way else self.state

    def waits_for(self, task: TaskView) -> str:
        """What a task waits for that isn't under way, or can't go on without its delegations."""
        if self.ended or task.final:
            return ""
        if task.state == ASKING:
            return "waits for a person's answer"
        if task.state != "submitted":
            asked = [self.tasks[child] for child in dict.fromkeys(task.delegated.values()) if child in self.tasks]
            roles = dict.fromkeys(child.role for child in asked if not child.final)
            return f"waits for {' and '.join(roles)}" if roles else ""
        own = [one for one in self.tasks.values() if not one.parent_task_id]
        done = {one.role for one in own if one.state == "completed"}
        edges = () if task.parent_task_id else self.edges
        missing = [up for up, down in edges if down == task.role and up not in done]
        if missing:
            return f"waits for {' and '.join(missing)}"
        return "waits for the run to be resumed" if self.paused else f"waits for an instance of {task.role}"

    def asked_before(self, event: run_pb2.RunEvent) -> bool:
        """Whether this event of kind `delegated`, not applied yet, asks for what was asked before: it is remembered."""
        return event.delegated.child_task_id in self._asked_for

    def _delegated(self, task: TaskView, what: run_pb2.Delegated) -> None:
        if what.HasField("failure"):
            task.notes.append(f"{what.role} was refused: {what.failure.message}")
            return
        if what.child_task_id in self._asked_for:
            task.notes.append(f"{what.role} had been asked this before: remembered")
        self._asked_for.add(what.child_task_id)
        task.delegated[what.delegation_id] = what.child_task_id

    def _end(self, now: float) -> None:
        self.ended = now
        for task in self.tasks.values():
            if not task.final:  # it was cut off
                task.state, task.ended = "canceled", now

    def _task(self, event: run_pb2.RunEvent, kind: str) -> TaskView | None:
        task_id = event.task.task_id
        if not task_id:
            return None
        if task_id not in self.tasks:
            what = getattr(event, kind)
            parent = what.parent_task_id if kind == "task_state" else ""
            self.tasks[task_id] = TaskView(task_id, getattr(what, "role", ""), parent)
        return self.tasks[task_id]


def _apply(task: TaskView, event: run_pb2.RunEvent, kind: str, now: float) -> None:
    match kind:
        case "task_state" if event.task_state.stopping:
            task.stopping = event.task_state.failure.message or "it is not needed any more"
        case "task_state":
            task.state = state_name(event.task_state.state)
            task.remark = event.task_state.failure.message or task.remark
            if task.final:
                task.ended = now
        case "dispatched":
            task.state, task.attempt = "working", event.task.attempt
            task.instance = event.dispatched.instance_id
            task.began, task.text, task.written = now, "", 0
            task.given = tuple(ref.role if ref.seq else f"{ref.role} (session)" for ref in event.dispatched.given)
            task.delegated.clear()  # the attempt asks for what it needs
            task.calls.clear()
        case "tool_event" if event.task.attempt == task.attempt:
            task.calls.pop(event.tool_event.call_id, None)
            if event.tool_event.arguments_json or not event.tool_event.result_json:
                task.calls[event.tool_event.call_id] = event.tool_event.tool_name
        case "text_delta":
            if event.task.attempt == task.attempt:
                task.written = event.text_delta.offset + len(event.text_delta.text.encode())
                task.text = (task.text + event.text_delta.text)[-_TAIL:]
        case "result":
            task.state, task.ended = state_name(event.result.state), now
            task.usage = event.result.usage
            task.remark = event.result.failure.message
        case "input_requested":
            task.state, task.asked = ASKING, asked_of(event.run_id, event.input_requested)
            task.saved = len(event.input_requested.checkpoint) or task.saved
        case "input_given":
            task.state = "submitted"
            asked = f"asked: {shortened(task.asked.text)}  " if task.asked is not None else ""
            task.notes.append(f"{asked}answer: {shortened(words_of(event.input_given.parts))}")
        case "checkpoint":
            task.saved = event.checkpoint.size or len(event.checkpoint.data)
        case "budget_reserved" if not event.budget_reserved.HasField("budget"):
            task.remark = "wanted more of the budget than is left"
        case "published":
            task.version = event.published.ref.version
        case "lost":
            task.state = "submitted"
            task.remark = f"{event.lost.instance_id} was lost: {event.lost.failure.message}"
        case "retry":
            task.state = "submitted"
            pause = max(0.0, event.retry.not_before.ToNanoseconds() / 1e9 - event.time.ToNanoseconds() / 1e9)
            task.remark = f"failed, is tried again in {duration(pause)}: {event.retry.failure.message}"
        case "rejected":
            task.state = "submitted"
            task.remark = f"{event.rejected.instance_id} didn't take it: {event.rejected.failure.message}"
