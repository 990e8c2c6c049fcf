"""The tasks of a run as the state of AG-UI: a small document, and its changes."""

from __future__ import annotations

from typing import Any, Final

from ag_ui.core import BaseEvent, StateDeltaEvent, StateSnapshotEvent

from archon.run_view import RunView, TaskView

KEY: Final = "archon"
"""The key of the document in the state of a front end, which keeps its other keys."""

MAX_TASKS: Final = 200
"""Tasks in the document; of more, the oldest that have ended are left out, or else the new ones."""


class TaskStateDocument:
    """The document: `run` with id and state, and `tasks` by their ids. A front end whose state is no JSON object gets
    none: it would lose its state."""

    def __init__(self, given: Any) -> None:
        self._given: dict[str, Any] | None = {} if given is None else given if isinstance(given, dict) else None
        self._run: dict[str, Any] = {}
        self._tasks: dict[str, dict[str, Any]] = {}

    def snapshot(self, view: RunView) -> list[BaseEvent]:
        """Returns the whole state."""
        if self._given is None:
            return []
        self._run = _of_run(view)
        kept = [task for task in view.tasks.values() if not task.final]
        ended = [task for task in view.tasks.values() if task.final]
        chosen = {task.task_id for task in (ended + kept)[-MAX_TASKS:]}
        self._tasks = {task_id: _of_task(task) for task_id, task in view.tasks.items() if task_id in chosen}
        document = {"run": dict(self._run), "tasks": {key: dict(task) for key, task in self._tasks.items()}}
        return [StateSnapshotEvent(snapshot={**self._given, KEY: document})]

    def changes(self, view: RunView, task: TaskView | None) -> list[BaseEvent]:
        """Returns the change of the state by an event, of the run and of one task."""
        if self._given is None:
            return []
        operations: list[dict[str, Any]] = []
        if (run := _of_run(view)) != self._run:
            self._run = run
            operations.append({"op": "replace", "path": f"/{KEY}/run", "value": dict(run)})
        if task is not None and (changed := _of_task(task)) != self._tasks.get(task.task_id):
            operations += self._put(view, task.task_id, changed)
        return [StateDeltaEvent.model_validate({"delta": operations})] if operations else []

    def _put(self, view: RunView, task_id: str, changed: dict[str, Any]) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        if task_id not in self._tasks and len(self._tasks) >= MAX_TASKS:
            ended = next((key for key in self._tasks if view.tasks[key].final), None)
            if ended is None:
                return []
            del self._tasks[ended]
            out.append({"op": "remove", "path": _path(ended)})
        self._tasks[task_id] = changed
        return [*out, {"op": "add", "path": _path(task_id), "value": dict(changed)}]


def _of_run(view: RunView) -> dict[str, Any]:
    return {"id": view.run_id, "state": view.state.value}


def _of_task(task: TaskView) -> dict[str, Any]:
    document: dict[str, Any] = {
        "role": task.role,
        "state": task.state.value,
        "attempt": task.attempt.number if task.attempt is not None else 0,
    }
    if task.step_id:
        document["step"] = task.step_id
    if task.parent_task_id:
        document["parent"] = task.parent_task_id
    return document


def _path(task_id: str) -> str:
    return f"/{KEY}/tasks/{task_id.replace('~', '~0').replace('/', '~1')}"
