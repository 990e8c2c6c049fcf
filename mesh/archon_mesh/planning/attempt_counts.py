"""The attempts at the subtasks of one execution of a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from archon_mesh.engine import RunState
from archon_mesh.engine import events as ev
from archon_mesh.planning.attempt_results import executed_form
from archon_mesh.planning.attempts import Measured, SubTaskRun
from archon_mesh.planning.progress import PlanProgress

Counted = ev.Dispatched | ev.Retried | ev.ResultReceived


class AttemptCounts:
    """Counts the attempts at each subtask, also the ones in the journal: `is_past` while its events are folded. `clock`
    returns seconds on any clock."""

    def __init__(self, clock: Callable[[], float], *, is_past: bool = False) -> None:
        self._clock = clock
        self.is_past = is_past
        self.attempts: dict[str, SubTaskRun] = {}
        """The attempts so far, by the task of the run."""

        self._past_time = 0.0
        """The time of the last result in the journal."""

    def count(
        self, progress: PlanProgress, run: RunState, event: ev.Dispatched | ev.Retried | ev.ResultReceived
    ) -> None:
        """Counts an attempt that begins; adds the spending of an attempt in the journal that has ended."""
        id_ = run.tasks[event.task_id].step_id
        if not id_:
            return
        if isinstance(event, ev.Dispatched):
            if not progress.is_given(id_):
                self._begin(progress, run, event, id_)
            return
        attempts = self.attempts.get(event.task_id)
        if attempts is None:
            progress.take_given(id_)
        elif self.is_past:
            attempts.spending.model_calls += event.spent.calls
            attempts.spending.cost_micro_usd += event.spent.cost
            attempts.problem = event.failure.message if event.failure is not None else ""
            self._past_time = run.latest_time

    def _begin(self, progress: PlanProgress, run: RunState, event: ev.Dispatched, id_: str) -> None:
        attempts = self.attempts.get(event.task_id)
        if attempts is None:
            started = run.latest_time if self.is_past else self._clock()
            subtask = progress.subtask(id_)
            if subtask.assigned_by:
                subtask = replace(subtask, role=event.role)
            attempts = SubTaskRun(executed_form(subtask), progress.number_of(id_), started)
            self.attempts[event.task_id] = attempts
        attempts.attempts += 1

    def take_over(self, latest_time: float) -> None:
        """Sets the starts, which are times of the journal up to `latest_time`, to times of the clock."""
        for attempts in self.attempts.values():
            attempts.started = self._clock() - (latest_time - attempts.started)

    def measured(self, task_id: str) -> Measured | None:
        """Returns the measurements of a subtask until now; None if it has not begun."""
        attempts = self.attempts.get(task_id)
        return attempts.measured(self._past_time if self.is_past else self._clock()) if attempts is not None else None
