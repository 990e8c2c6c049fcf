"""Progress of a run in another mesh, as progress of the task whose run it is."""

from __future__ import annotations

import asyncio
import json
from typing import Final

from archon.agent import TaskContext
from archon.run_view import RunView, TaskView
from archon.types.run_event import RunEvent

RATE: Final = 10
"""Calls shown per second in the long run; further ones are left out."""

BURST: Final = 20
"""Calls shown at once."""

_ENDINGS: Final = ("result", "lost", "rejected", "retry", "discarded", "task_state")


class Narrator:
    """Shows the attempts of a run in another mesh to the watchers of a task, as calls of tools."""

    def __init__(self, task: TaskContext, mesh: str, run_id: str) -> None:
        self._task = task
        self._mesh = mesh
        self._run_id = run_id
        self._room = float(BURST)
        self._at = asyncio.get_running_loop().time()
        self._shown: dict[str, str] = {}
        """Ids of the calls that were shown and have not ended, with the names of their tools."""

    def submitted(self) -> None:
        """Shows the run itself."""
        self._begin(self._run_id, self._mesh)

    def apply(self, event: RunEvent, view: RunView) -> None:
        """Shows an event, which `view` has."""
        task = view.tasks.get(event.task_id)
        if task is None or event.task is None:
            return
        call_id = f"{task.task_id}/{event.task.attempt}"
        if event.type == "dispatched":
            self._begin(call_id, f"{self._mesh}/{task.label}")
        elif event.type in _ENDINGS and (event.type != "task_state" or task.final):
            self._end(call_id, task)

    def _begin(self, call_id: str, tool: str) -> None:
        now = asyncio.get_running_loop().time()
        self._room = min(float(BURST), self._room + (now - self._at) * RATE)
        self._at = now
        if self._room < 1.0 or call_id in self._shown:
            return
        self._room -= 1.0
        self._shown[call_id] = tool
        self._task.tell_tool_call(call_id, tool, json.dumps({"mesh": self._mesh, "run": self._run_id}))

    def _end(self, call_id: str, task: TaskView) -> None:
        if (tool := self._shown.pop(call_id, None)) is None:
            return
        attempt = task.attempt
        outcome = attempt.outcome if attempt is not None and not task.final else task.state
        text = f"run {self._run_id} of the mesh {self._mesh}: {task.label} {outcome}"
        self._task.tell_tool_result(call_id, tool, json.dumps(text), failed=outcome in ("failed", "lost", "retried"))
