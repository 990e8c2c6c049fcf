"""The results of attempts at the parts of a plan, as inputs of its run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from archon.errors import InvalidArgument
from archon.failure_kinds import RetryAdvice
from archon_mesh.engine import Task as RunTask
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decisions import UNDECIDED_REQUEST
from archon_mesh.engine.plan import ReplanCounters, ReplanPolicy, SubTask, Task, replan_reason
from archon_mesh.engine.types import Amount, Failure, TaskState
from archon_mesh.planning.attempts import AttemptFailed
from archon_mesh.planning.records import as_stored
from archon_mesh.planning.worker import Spending

PLANNER_FAILED: Final = "PLANNER_FAILED"
"""The reason of a run's failure without another plan, or without the replacement of a subtask."""


def failure_causes(counters: ReplanCounters, policy: ReplanPolicy) -> str | None:
    """Returns the failures that require another plan, whether or not a replan is left; None if there are none."""
    return replan_reason(replace(counters.without_doubts(), replans=0), replace(policy, max_replans=1))


def has_failed(counters: ReplanCounters, policy: ReplanPolicy) -> bool:
    """Tells whether failures require another plan."""
    return failure_causes(counters, policy) is not None


def still_open(task: Task) -> Task:
    """Returns a plan with the subtasks that have not ended: the run knows the others."""
    return replace(task, subtasks=tuple(subtask for subtask in task.subtasks if not subtask.has_ended))


def executed_form(subtask: SubTask) -> SubTask:
    """Returns the subtask as it is executed: one with a decision, which its rule has not made, as a question."""
    if not subtask.decision:
        return subtask
    request = f"{UNDECIDED_REQUEST}\n\n{subtask.description}".strip()
    return replace(subtask, description=request, tool_args={})


def completion(task: RunTask, result: Any = None, confidence: float = 1.0) -> inp.ResultIn:
    """Returns the result of a successful attempt."""
    return inp.ResultIn(task.task_id, task.attempt, TaskState.COMPLETED, result, confidence=confidence)


def kept_result(result: Any, id_: str) -> Any:
    """Returns a result as a later process reads it. Raises AttemptFailed if it cannot be kept: to execute the subtask
    again would not help."""
    try:
        return as_stored(result, f"the result of subtask {id_}")
    except InvalidArgument as error:
        raise AttemptFailed(error.message, is_final=True) from None


def spent_between(before: Spending, after: Spending) -> Amount:
    """Returns the amount that was spent between two times."""
    return Amount(0, after.cost_micro_usd - before.cost_micro_usd, after.model_calls - before.model_calls)


def failed_result(task: RunTask, failure: Failure) -> inp.ResultIn:
    """Returns the result of a failed attempt."""
    return inp.ResultIn(task.task_id, task.attempt, TaskState.FAILED, None, failure)


def without_plan(task: RunTask, message: str) -> inp.ResultIn:
    """Returns the result of a planner that has made no plan."""
    return failed_result(task, Failure("FAILED_PRECONDITION", PLANNER_FAILED, message, retry=int(RetryAdvice.NEVER)))
