"""Runs in another mesh whose task has ended without a gateway that could cancel them: found and cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import Final

from archon.errors import UnknownRun
from archon.federation.lineage import PARENT_MESH_KEY, PARENT_RUN_KEY, PARENT_TASK_KEY
from archon.federation.other_mesh import OtherMesh
from archon.types.run import Run
from archon.types.task_state import TaskState

_log = logging.getLogger(__name__)

INTERVAL: Final = 30.0
"""Seconds between two searches."""

MAX_LISTED: Final = 1_000
"""Runs in progress that one search looks at, the newest ones."""

MAX_KNOWN: Final = 10_000
"""Runs whose parents are remembered between two searches."""

_IN_PROGRESS: Final = (TaskState.SUBMITTED, TaskState.WORKING, TaskState.INPUT_REQUIRED)


class OrphanSearch:
    """Searches the mesh `other` for runs in progress that are tasks of the mesh `own`, and cancels those whose task has
    ended: a task may be cancelled while its gateway is cut off, or while there is none."""

    def __init__(self, own: OtherMesh, other: OtherMesh, own_id: str) -> None:
        self._own = own
        self._other = other
        self._own_id = own_id
        self._parents: OrderedDict[str, tuple[str, str]] = OrderedDict()
        """Run and task above each run in progress of the other mesh; empty texts if it is no task of this mesh."""

    async def repeat(self) -> None:
        """Searches every INTERVAL seconds. Raises the errors of `search`."""
        while True:
            await asyncio.sleep(INTERVAL)
            await self.search()

    async def search(self) -> int:
        """Returns how many runs it has cancelled. Raises Unavailable and DeadlineExceeded if one of the meshes does not
        answer."""
        listed = await self._other.client().list_runs(limit=MAX_LISTED, states=_IN_PROGRESS)
        cancelled = 0
        runs: dict[str, Run | None] = {}
        for run in listed:
            parent_run, parent_task = await self._parent(run.run_id)
            if not parent_run:
                continue
            if parent_run not in runs:
                runs[parent_run] = await self._own_run(parent_run)
            if _goes_on(runs[parent_run], parent_task):
                continue
            await self._other.client().cancel(run.run_id, "its task has ended")
            text = "cancelled run %s of the mesh %s: its task %s has ended"
            _log.info(text, run.run_id, self._other.name, parent_task, extra={"run_id": parent_run})
            cancelled += 1
        return cancelled

    async def _parent(self, run_id: str) -> tuple[str, str]:
        """The run and the task here that a run of the other mesh belongs to; empty texts if it belongs to none."""
        if run_id not in self._parents:
            try:
                metadata = (await self._other.client().get(run_id)).metadata
            except UnknownRun:
                return "", ""
            is_ours = metadata.get(PARENT_MESH_KEY) == self._own_id
            parent = (metadata.get(PARENT_RUN_KEY, ""), metadata.get(PARENT_TASK_KEY, "")) if is_ours else ("", "")
            self._parents[run_id] = parent
            if len(self._parents) > MAX_KNOWN:
                self._parents.popitem(last=False)
        return self._parents[run_id]

    async def _own_run(self, run_id: str) -> Run | None:
        """A run of this mesh; None if it has been deleted."""
        try:
            return await self._own.client().get(run_id)
        except UnknownRun:
            return None


def _goes_on(run: Run | None, task_id: str) -> bool:
    """Whether a task has not ended."""
    if run is None or run.state.final:
        return False
    return not any(task.task_id == task_id and task.state.final for task in run.tasks)
