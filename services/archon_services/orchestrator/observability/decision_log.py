"""The decisions of a run's plans, for its spans: which results a step had to choose from, and which one it chose. Pure.

A run keeps nothing here until a plan has a step with a decision."""

from __future__ import annotations

from dataclasses import dataclass, field

from archon.api.agent.v1 import agent_pb2
from archon_mesh.engine import events as ev
from archon_mesh.engine.types import UNDECIDED, Failure


@dataclass(slots=True)
class DecisionLog:
    """The outcome of a rule, at `time` in wall seconds. `winner` is a step, empty if the rule has left it undecided;
    `reason` and `conflict` are as in a Resolution. `failure` is set if the step has failed with it."""

    task_id: str
    role: str
    rule: str
    time: float
    winner: str = ""
    reason: str = ""
    conflict: str = ""
    failure: Failure | None = None


@dataclass(slots=True)
class DecisionLogs:
    """The decisions of a run."""

    made: dict[str, DecisionLog] = field(default_factory=dict)
    """By task, in order."""
    sources: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The tasks whose results each deciding task chooses from."""
    steps: dict[str, str] = field(default_factory=dict)
    """The step of each task."""
    _rules: dict[str, str] = field(default_factory=dict)
    """The rules of the deciding steps of the newest plan."""

    def planned(self, event: ev.Planned) -> None:
        """Replaces the rules by the rules of the deciding steps of a plan."""
        self._rules = {step.id: step.decision for step in event.plan.subtasks if step.decision}

    def created(self, event: ev.TaskCreated) -> None:
        """Takes in a task of a plan."""
        self.steps[event.task_id] = event.step_id
        if event.step_id in self._rules:
            self.sources[event.task_id] = event.predecessors

    def ended(self, event: ev.ResultReceived | ev.Retried | ev.ApprovalRequested | ev.TaskEnded, time: float) -> None:
        """Takes in an event that may be the outcome of a rule."""
        task_id = event.task_id
        if task_id not in self.sources:
            return
        failure = None if isinstance(event, ev.ApprovalRequested) else event.failure
        is_undecided = failure is not None and failure.reason == UNDECIDED
        payload = None if isinstance(event, ev.TaskEnded) else event.payload
        has_resolution = isinstance(payload, agent_pb2.TaskResult) and payload.HasField("resolution")
        if task_id in self.made or not (has_resolution or is_undecided):
            return
        log = DecisionLog(task_id, event.role, self._rules.get(self.steps[task_id], ""), time)
        if isinstance(payload, agent_pb2.TaskResult) and has_resolution:
            chosen = payload.resolution
            log.rule, log.winner = chosen.rule, chosen.winner_step_id
            log.reason, log.conflict = chosen.reason, chosen.conflict
        elif failure is not None:
            log.reason = failure.message
        if isinstance(event, ev.TaskEnded):
            log.failure = failure
        self.made[task_id] = log


def has_decisions(event: ev.Planned) -> bool:
    """Returns whether a step of a plan chooses from the results of others."""
    return any(step.decision for step in event.plan.subtasks)
