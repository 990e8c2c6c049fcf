"""A simpler goal for a query whose plans have failed."""

from __future__ import annotations

from typing import Final

from archon_mesh.engine.plan import SubTaskStatus, Task

MAX_SUGGESTION: Final = 500
"""Characters of a suggestion."""


def simpler_goal(task: Task) -> str:
    """Returns the completed part of a failed plan, or else its first failed subtask; empty if that is all of it."""
    completed = [each.description for each in task.subtasks if each.status is SubTaskStatus.COMPLETED]
    failed = [each.description for each in task.subtasks if each.status is SubTaskStatus.FAILED]
    parts = completed or (failed[:1] if len(task.subtasks) > 1 else [])
    text = "; ".join(part.strip().rstrip(".") for part in parts if part.strip())
    return f"{text}."[:MAX_SUGGESTION] if text else ""
