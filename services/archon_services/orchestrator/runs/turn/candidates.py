"""The tasks of a run that may have become ready since they were last looked at, so that a step of a run with a thousand
tasks does not look at all of them."""

from __future__ import annotations

from collections.abc import Iterable

from archon_mesh.engine import RunState, Task
from archon_mesh.engine import events as ev
from archon_mesh.engine.step_placement import hedges_of
from archon_mesh.engine.types import TaskState


class Candidates:
    """At first all tasks."""

    __slots__ = ("_task_ids",)

    def __init__(self) -> None:
        self._task_ids: dict[str, None] | None = None

    def reset(self) -> None:
        """Any task may be ready: the next call of `take` returns all."""
        self._task_ids = None

    def note(self, run: RunState, event: ev.Event) -> None:
        """Adds the tasks that a local event may have made ready; `run` is the state after it."""
        if self._task_ids is None:
            return
        if type(event) is ev.ResultReceived or type(event) is ev.TaskEnded:
            for task_id in run.tasks[event.task_id].successors:
                self._task_ids[task_id] = None
                if run.plan is not None and event.state is not TaskState.COMPLETED:
                    self._task_ids |= dict.fromkeys(run.tasks[task_id].predecessors)  # one may stand by
        elif type(event) is ev.Dispatched:
            if event.expected_seconds:
                for copy in hedges_of(run, run.tasks[event.task_id]):
                    self._task_ids[copy.task_id] = None
        elif type(event) is ev.Delegated:
            if event.child:  # one that was taken over waits for its request
                self._task_ids[event.child] = None
        elif type(event) is ev.TaskCreated or type(event) is ev.Retried:
            self._task_ids[event.task_id] = None

    def keep(self, task_id: str) -> None:
        """Has the next call of `take` return this task too."""
        if self._task_ids is not None:
            self._task_ids[task_id] = None

    def take(self, run: RunState, further: Iterable[str]) -> list[Task]:
        """Returns the candidates and the tasks with the ids `further`, and forgets them. Ids of tasks that do not exist
        are left out: the step that created them was not stored."""
        task_ids, self._task_ids = self._task_ids, {}
        if task_ids is not None:
            tasks = run.tasks
            return [tasks[task_id] for task_id in (*task_ids, *further) if task_id in tasks]
        return list(run.tasks.values())
