"""Which versions a run's answers got in the shared memory, also where they got them after the run had ended."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from typing import Final

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import ArchonError

_PATIENCE: Final = 1.0


async def memory_versions(memory: str, run: run_pb2.Run) -> dict[str, int]:
    """By role, as far as the run itself or the memory service at `memory` says so within a second."""
    known = {task.role: task.memory_version for task in run.tasks if task.memory_version}
    wanted = {task.role for task in run.tasks if task.state == common_pb2.TASK_STATE_COMPLETED} - set(known)
    if not memory or not wanted:
        return known
    from archon.memory import MemoryGraphClient

    try:
        async with (
            asyncio.timeout(_PATIENCE),
            MemoryGraphClient(memory, scope=run.session_id or run.run_id) as client,
            aclosing(client.watch()) as changes,
        ):
            async for change in changes:
                known |= {item.source_id: item.version for item in change.items if item.run_id == run.run_id}
                if wanted <= set(known):
                    break
    except (ArchonError, TimeoutError):
        pass
    return known


def version_of(run: run_pb2.Run, task: run_pb2.Task, versions: Mapping[str, int]) -> int:
    """That of one task's answer; 0 where it isn't known. The memory tells roles apart and not tasks, so that it says
    nothing of a role that has answered twice."""
    answered = [one for one in run.tasks if one.role == task.role and one.state == common_pb2.TASK_STATE_COMPLETED]
    return task.memory_version or (versions.get(task.role, 0) if answered == [task] else 0)
