"""Versions of a run's answers in shared memory, including those published after the run has ended."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Final

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import ArchonError

_PATIENCE: Final = 1.0
"""Seconds to wait for the memory service."""


async def memory_versions(memory: str, run: run_pb2.Run) -> dict[str, int]:
    """Returns versions by role, as far as the run or, within a second, the memory service at `memory` knows them."""
    versions = {task.role: task.memory_version for task in run.tasks if task.memory_version}
    missing = {task.role for task in run.tasks if task.state == common_pb2.TASK_STATE_COMPLETED} - set(versions)
    if not memory or not missing:
        return versions
    from archon.memory import MemoryGraphClient

    try:
        async with (
            asyncio.timeout(_PATIENCE),
            MemoryGraphClient(memory, scope=run.session_id or run.run_id) as client,
            aclosing(client.watch()) as changes,
        ):
            async for change in changes:
                versions |= {item.source_id: item.version for item in change.items if item.run_id == run.run_id}
                if missing <= set(versions):
                    break
    except (ArchonError, TimeoutError):
        pass
    return versions
