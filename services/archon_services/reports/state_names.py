"""Display names of runs and tasks."""

from __future__ import annotations

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.run_view import TaskState, TaskView


def state_name(state: common_pb2.TaskState.ValueType) -> str:
    """Returns the display name of a state, such as `working` or `input required`."""
    return TaskState.from_proto(state)


def run_state_name(run: run_pb2.Run) -> str:
    """Returns the display name of a run's state; `paused` for a run that is paused."""
    return "paused" if run.paused else state_name(run.state)


def is_reused(task: run_pb2.Task) -> bool:
    """Whether the task's answer was taken over from a forked run: it has completed without an attempt, and no rule has
    chosen it."""
    return task.state == common_pb2.TASK_STATE_COMPLETED and not task.attempt and not task.HasField("resolution")


def task_state_name(task: run_pb2.Task) -> str:
    """Returns the display name of a task's state; `reused` for an answer of a forked run, `decided` for one that a rule
    has chosen."""
    if is_reused(task):
        return "reused"
    is_decided = task.state == common_pb2.TASK_STATE_COMPLETED and not task.attempt
    return "decided" if is_decided else state_name(task.state)


def task_label(task: run_pb2.Task | TaskView) -> str:
    """Returns the display name of a task: its role, and its step if it executes one of a plan; the step alone if it has
    no role, as one that a rule decides."""
    return f"{task.role} ({task.step_id})" if task.step_id and task.role else task.role or task.step_id
