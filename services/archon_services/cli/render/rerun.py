"""Texts about running a run again: the reused tasks, and the command."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any, Final

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.plain_text import counted
from archon.types import ForkDecision, ForkPreview, TaskState
from archon_services.cli.run_ids import SHORT
from archon_services.reports.state_names import is_reused
from archon_services.reports.texts import one_line

MAX_NAMED: Final = 20
"""Reused tasks that are named."""

_HINTS = {
    common_pb2.TASK_STATE_FAILED: "continues from the failed task",
    common_pb2.TASK_STATE_CANCELED: "continues with the tasks that had not completed",
}


def rerun_note(source: run_pb2.Run, fork: run_pb2.Run) -> str:
    """Names the tasks that the new run reuses, and the alternative if it reuses all."""
    reused = [task.step_id or task.role for task in fork.tasks if is_reused(task)]
    if source.state == common_pb2.TASK_STATE_COMPLETED:
        return (
            f"Run {fork.run_id} reuses everything of run {source.run_id}, which has completed. "
            "`archon run` executes a goal anew."
        )
    if not reused:
        return f"Run {fork.run_id} starts over: no task of run {source.run_id} had completed."
    return f"Run {fork.run_id} continues run {source.run_id} and reuses {_named(reused)}."


def fork_note(source: run_pb2.Run, fork: run_pb2.Run, after_seq: int) -> str:
    """Names the tasks of a fork that executes more than had been left, and those that it reuses."""
    reused = [task.step_id or task.role for task in fork.tasks if is_reused(task)]
    open_tasks = [task.step_id or task.role for task in fork.tasks if not TaskState.from_proto(task.state).final]
    at = f" at event {after_seq:,}" if after_seq else ""
    executes = f"executes {_named(open_tasks)}" if open_tasks else "executes nothing"
    reuses = f", and reuses {_named(reused)}" if reused else ""
    return f"Run {fork.run_id} forks run {source.run_id}{at}: it {executes}{reuses}."


def preview_lines(run_id: str, preview: ForkPreview, width: int) -> Iterator[str]:
    """Yields the decisions of a fork about each task, and why, in lines of at most `width` characters."""
    if preview.plan_revision:
        yield f"The plan of run {run_id}: revision {preview.plan_revision}."
    names = [task.step_id or task.role for task in preview.tasks]
    first = max([4, *map(len, names)]) + 2
    for name, task in zip(names, preview.tasks, strict=True):
        head = f"{name.ljust(first)}{task.decision.ljust(10)}"
        lines = textwrap.wrap(one_line(task.reason, 400), max(20, width - len(head)), break_long_words=False)
        for number, line in enumerate(lines or [""]):
            yield ((head if not number else " " * len(head)) + line).rstrip()
    executed = [task for task in preview.tasks if task.decision is ForkDecision.EXECUTED]
    yield f"{counted(len(executed), 'task')} of {len(preview.tasks)} would be executed. Nothing was changed."


def preview_document(run_id: str, preview: ForkPreview) -> dict[str, Any]:
    """Returns the JSON form of a preview."""
    return {
        "run_id": run_id,
        "plan_revision": preview.plan_revision,
        "tasks": [
            {
                "task_id": task.task_id,
                "role": task.role,
                "step_id": task.step_id,
                "parent_task_id": task.parent_task_id,
                "decision": str(task.decision),
                "reason": task.reason,
                "because_seq": task.because.seq if task.because is not None else 0,
            }
            for task in preview.tasks
        ],
    }


def _named(names: list[str]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more


def rerun_hint(run: run_pb2.Run, flag: str = "") -> str:
    """Says how to continue a run that ended without success; empty for any other. `flag` is the option that suggested
    commands need to reach the orchestrator."""
    if run.state not in _HINTS:
        return ""
    return f"`archon rerun {run.run_id[:SHORT]}{flag}` {_HINTS[run.state]}."
