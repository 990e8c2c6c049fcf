"""The part of a run's events for its spans: times, states, failures and usage, not the contents of tasks. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from archon.api.agent.v1 import agent_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.telemetry import names
from archon_mesh.engine import events as ev
from archon_mesh.engine.types import Failure, Payload, Submission, TaskState
from archon_services.orchestrator.observability.decision_log import DecisionLogs, has_decisions

MAX_NOTES: Final = 100
"""Notes of a run that its span shows; later ones are left out."""

STATE_NAMES: Final = {state: state.name.lower() for state in TaskState}

_NOTES: Final = {
    ev.Claimed: names.TAKEN_OVER,
    ev.Paused: names.PAUSED,
    ev.Resumed: names.RESUMED,
    ev.CancelRequested: names.CANCEL_REQUESTED,
    ev.InputRequested: names.INPUT_REQUESTED,
    ev.ApprovalRequested: names.INPUT_REQUESTED,
    ev.InputGiven: names.INPUT_GIVEN,
}


@dataclass(slots=True)
class AttemptLog:
    """One attempt at a task. Times are in wall seconds; `end` is 0 while it is live. `state` is how it ended:
    completed, failed, canceled, rejected, retried, lost, discarded, stopped or input_required."""

    task_id: str
    role: str
    attempt: int
    instance_id: str
    owner: str
    start: float
    end: float = 0.0
    state: str = ""
    failure: Failure | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost_micro_usd: int = 0
    cached_tokens: int = 0


@dataclass(slots=True)
class Note:
    """Something that happened to the run as a whole; `about` is the new owner, or the task, or empty."""

    name: str
    time: float
    about: str


@dataclass(slots=True)
class RunLog:
    """The log of one run, from its first event on."""

    submission: Submission | None = None
    owner: str = ""
    last_seq: int = 0
    start: float = 0.0
    end: float = 0.0
    state: TaskState = TaskState.UNSPECIFIED
    failure: Failure | None = None
    attempts: list[AttemptLog] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    callers: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    """Of a delegated task: the task that delegated, its attempt, and the traceparent that it sent."""

    decisions: DecisionLogs | None = None
    """None until a plan has a step with a decision."""

    _live: dict[str, AttemptLog] = field(default_factory=dict)

    @property
    def traced(self) -> bool:
        """Whether the run gets spans."""
        goal = self.submission.goal if self.submission is not None else None
        return isinstance(goal, run_pb2.Submitted) and goal.traced

    def add(self, event: ev.Event, time: float) -> None:
        """Adds the next event, decided at `time`."""
        self.last_seq += 1
        self._note(event, time)
        if self.decisions is not None or isinstance(event, ev.Planned):
            self._decided(event, time)
        match event:
            case ev.Submitted():
                self.submission, self.owner, self.start = event.submission, event.owner, time
            case ev.Claimed():
                self.owner = event.owner
            case ev.Dispatched():
                self._dispatched(event, time)
            case ev.Delegated():
                if event.child and event.child not in self.callers:
                    self.callers[event.child] = event.task_id, event.attempt, _traceparent(event)
            case ev.ResultReceived():
                self._result(event, time)
            case ev.Retried():
                _spend(self._ended(event.task_id, event.attempt, "retried", time, event.failure), event.payload)
            case ev.Lost() | ev.Rejected():
                self._ended(event.task_id, event.attempt, type(event).__name__.lower(), time, event.failure)
            case ev.Discarded():
                _spend(self._ended(event.task_id, event.attempt, "discarded", time), event.payload)
            case ev.TaskEnded():
                self._ended(event.task_id, event.attempt, STATE_NAMES[event.state], time, event.failure)
            case ev.InputRequested(sequence=0) | ev.ApprovalRequested():  # the attempt has ended with the question
                _spend(self._ended(event.task_id, event.attempt, "input_required", time), event.payload)
            case ev.RunEnded():
                self.end, self.state, self.failure = time, event.state, event.failure
                for attempt in self._live.values():
                    attempt.end, attempt.state = time, "stopped"
                self._live.clear()

    def _decided(self, event: ev.Event, time: float) -> None:
        decisions = self.decisions
        if decisions is None:
            if not (isinstance(event, ev.Planned) and has_decisions(event)):
                return
            decisions = self.decisions = DecisionLogs()
        match event:
            case ev.Planned():
                decisions.planned(event)
            case ev.TaskCreated() if event.step_id:
                decisions.created(event)
            case ev.ResultReceived() | ev.Retried() | ev.ApprovalRequested() | ev.TaskEnded():
                decisions.ended(event, time)

    def _note(self, event: ev.Event, time: float) -> None:
        if type(event) in _NOTES and len(self.notes) < MAX_NOTES:
            about = event.owner if isinstance(event, ev.Claimed) else getattr(event, "task_id", "")
            self.notes.append(Note(_NOTES[type(event)], time, about))

    def _dispatched(self, event: ev.Dispatched, time: float) -> None:
        attempt = AttemptLog(event.task_id, event.role, event.attempt, event.instance_id, self.owner, time)
        self._live[event.task_id] = attempt
        self.attempts.append(attempt)

    def _result(self, event: ev.ResultReceived, time: float) -> None:
        ended = self._ended(event.task_id, event.attempt, STATE_NAMES[event.state], time, event.failure)
        _spend(ended, event.payload)

    def _ended(
        self, task_id: str, number: int, state: str, time: float, failure: Failure | None = None
    ) -> AttemptLog | None:
        attempt = self._live.get(task_id)
        if attempt is None or attempt.attempt != number:
            return None
        attempt.end, attempt.state, attempt.failure = time, state, failure
        return self._live.pop(task_id)


def _spend(attempt: AttemptLog | None, payload: Payload) -> None:
    """Notes the usage of an attempt; None if it had ended before."""
    if attempt is not None and isinstance(payload, agent_pb2.TaskResult):
        usage = payload.usage
        attempt.input_tokens, attempt.output_tokens = usage.input_tokens, usage.output_tokens
        attempt.cost_micro_usd, attempt.cached_tokens = usage.cost_micro_usd, usage.cached_input_tokens


def _traceparent(event: ev.Delegated) -> str:
    payload = event.payload
    return payload.trace.traceparent if isinstance(payload, run_pb2.Delegated) else ""
