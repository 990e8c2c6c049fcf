"""Texts about running a run again: the reused tasks, and the command."""

from __future__ import annotations

from typing import Final

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_services.cli.render.state_names import is_reused
from archon_services.cli.run_ids import SHORT

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
    named = ", ".join(reused[:MAX_NAMED])
    more = f" and {len(reused) - MAX_NAMED} more" if len(reused) > MAX_NAMED else ""
    return f"Run {fork.run_id} continues run {source.run_id} and reuses {named}{more}."


def rerun_hint(run: run_pb2.Run, flag: str = "") -> str:
    """Says how to continue a run that ended without success; empty for any other. `flag` is the option that suggested
    commands need to reach the orchestrator."""
    if run.state not in _HINTS:
        return ""
    return f"`archon rerun {run.run_id[:SHORT]}{flag}` {_HINTS[run.state]}."
