"""Counts the durable events of runs for the metrics of the orchestrator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from archon.telemetry import metrics
from archon.telemetry.metrics import Recorder
from archon_mesh.engine import RunState
from archon_mesh.engine import events as ev
from archon_mesh.engine.types import TaskState

CREATED: Final = "created"
STARTED: Final = "started"
"""States of a step before it ends."""

_ENDS: Final = (TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED)


class RunEventCounter:
    """Counts events once they are durable: one lookup for an event that concerns no metric."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._counted: Final[Mapping[type, Callable[[Any, RunState], None]]] = {
            ev.Submitted: self._submitted,
            ev.Claimed: self._claimed,
            ev.TaskCreated: self._created,
            ev.Dispatched: self._dispatched,
            ev.Lost: self._lost,
            ev.Rejected: self._rejected,
            ev.Retried: self._retried,
            ev.ResultReceived: self._task_ended,
            ev.TaskEnded: self._task_ended,
            ev.RunEnded: self._run_ended,
        }
        recorder.add(metrics.RUNS_SUBMITTED, (), 0)
        recorder.add(metrics.RUNS_TAKEN_OVER, (), 0)
        for state in _ENDS:  # Prometheus sees no increase in a series that begins with 1
            recorder.add(metrics.RUNS_ENDED, (_name(state),), 0)
        for step_state in (CREATED, STARTED, *map(_name, _ENDS)):
            recorder.add(metrics.PLAN_STEPS, (step_state,), 0)

    def stored(self, events: Sequence[ev.Event], run: RunState) -> None:
        """Counts events of a run whose state includes them."""
        for event in events:
            counted = self._counted.get(type(event))
            if counted is not None:
                counted(event, run)

    def quarantined(self) -> None:
        """Counts a run that ended without an event."""
        self._recorder.add(metrics.RUNS_ENDED, (_name(TaskState.FAILED),))

    def _submitted(self, _: ev.Submitted, run: RunState) -> None:
        self._recorder.add(metrics.RUNS_SUBMITTED)

    def _claimed(self, _: ev.Claimed, run: RunState) -> None:
        self._recorder.add(metrics.RUNS_TAKEN_OVER)

    def _created(self, event: ev.TaskCreated, run: RunState) -> None:
        if event.step_id:
            self._recorder.add(metrics.PLAN_STEPS, (CREATED,))

    def _dispatched(self, event: ev.Dispatched, run: RunState) -> None:
        if event.attempt == 1 and _is_step(event.task_id, run):
            self._recorder.add(metrics.PLAN_STEPS, (STARTED,))
        self._recorder.add(metrics.ATTEMPTS_DISPATCHED, (event.role,))

    def _lost(self, event: ev.Lost, run: RunState) -> None:
        self._repeated(event.task_id, run, "lost")

    def _rejected(self, event: ev.Rejected, run: RunState) -> None:
        self._repeated(event.task_id, run, "rejected")

    def _retried(self, event: ev.Retried, run: RunState) -> None:
        self._repeated(event.task_id, run, "retried")

    def _repeated(self, task_id: str, run: RunState, reason: str) -> None:
        self._recorder.add(metrics.ATTEMPTS_REPEATED, (run.tasks[task_id].role, reason))

    def _task_ended(self, event: ev.ResultReceived | ev.TaskEnded, run: RunState) -> None:
        self._recorder.add(metrics.TASKS_ENDED, (event.role, _name(event.state)))
        if _is_step(event.task_id, run):
            self._recorder.add(metrics.PLAN_STEPS, (_name(event.state),))

    def _run_ended(self, event: ev.RunEnded, run: RunState) -> None:
        state = _name(event.state)
        self._recorder.add(metrics.RUNS_ENDED, (state,))
        self._recorder.record(metrics.RUN_DURATION, max(0.0, run.end_time - run.create_time), (state,))


def _is_step(task_id: str, run: RunState) -> bool:
    task = run.tasks.get(task_id)
    return task is not None and bool(task.step_id)


def _name(state: TaskState) -> str:
    return state.name.lower()
