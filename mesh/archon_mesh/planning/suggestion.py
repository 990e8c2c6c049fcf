"""A simpler goal for a query whose plans have failed."""

from __future__ import annotations

from typing import Final

from archon_mesh.engine.plan import SubTaskStatus, Task

MAX_SUGGESTION: Final = 500
"""Characters of a suggestion."""


def simpler_goal(task: Task) -> str:
    """Returns what of a failed plan worked, or else its first subtask alone; empty if that is the whole plan."""
    completed = [each.description for each in task.subtasks if each.status is SubTaskStatus.COMPLETED]
    failed = [each.description for each in task.subtasks if each.status is SubTaskStatus.FAILED]
    parts = completed or (failed[:1] if len(task.subtasks) > 1 else [])
    text = "; ".join(part.strip().rstrip(".") for part in parts if part.strip())
    return f"{text}."[:MAX_SUGGESTION] if text else ""
