"""The plan of a run: its steps, their tasks, and what a replan is decided by. Only the fold changes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from archon_mesh.core.plan import ReplanCounters, SubTask, SubTaskStatus
from archon_mesh.core.plan import Task as Plan
from archon_mesh.core.run import events as ev
from archon_mesh.core.run.state import RunState
from archon_mesh.core.run.task import Task
from archon_mesh.core.run.types import PLAN_FAILED, Failure, TaskState

MAX_NAMED = 20
"""Steps that a failure names."""

MAX_NAMES = 1_000
"""Characters of their names together."""

_STATUS = {
    TaskState.COMPLETED: SubTaskStatus.COMPLETED,
    TaskState.FAILED: SubTaskStatus.FAILED,
    TaskState.REJECTED: SubTaskStatus.FAILED,
    TaskState.CANCELED: SubTaskStatus.SKIPPED,
}


@dataclass(slots=True)
class PlanState:
    """The plan in force; without steps before the first one.

    `tasks` has the task of each step, by the step's id; `open` is how many of them have not ended. `sinks` are the
    steps that no other step depends on. `revision` is the plan's number and `seq` the event that changed it last.
    """

    goal: str = ""
    steps: dict[str, SubTask] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    revision: int = 0
    seq: int = 0
    tasks: dict[str, str] = field(default_factory=dict)
    sinks: tuple[str, ...] = ()
    open: int = 0
    edit_id: str = ""
    """The edit that changed the plan last; empty if the planner did."""
    planner: str = ""
    """The planner's task that makes the next plan; empty if none is asked for."""
    reason: str = ""
    """Why that plan is asked for; empty for the first one."""
    synthesis: str = ""
    """The planner's task that combines the results; empty before it is created."""
    counters: ReplanCounters = field(default_factory=ReplanCounters)

    def in_force(self, task: Task) -> bool:
        """True if the task executes a step of this plan, and not one that a later plan has replaced."""
        return bool(task.step_id) and self.tasks.get(task.step_id) == task.task_id


def sinks_of(plan: Plan) -> tuple[str, ...]:
    """Returns the ids of the steps that no other step depends on, in order."""
    used = {dependency for step in plan.subtasks for dependency in step.dependencies}
    return tuple(step.id for step in plan.subtasks if step.id not in used)


def keeps_task(task: Task, *, edited: bool = False) -> bool:
    """Returns whether a step keeps its task when the plan changes: if it has completed or is in progress; in an edit,
    which starts nothing again, also if it failed."""
    if task.ended:
        return task.state is TaskState.COMPLETED or (edited and task.attempt > 0)
    return task.attempt > 0 and not task.stopping


def status_of(run: RunState, task_id: str) -> SubTaskStatus:
    """Returns the status of the step that a task executes."""
    task = run.tasks[task_id]
    if (ended := _STATUS.get(task.state)) is not None:
        return ended
    return SubTaskStatus.EXECUTING if task.attempt else SubTaskStatus.PENDING


def steps_of(run: RunState) -> list[SubTask]:
    """Returns the steps of the plan in force with their statuses, in order; without results."""
    plan = run.plan
    assert plan is not None
    return [step.with_status(status_of(run, plan.tasks[step.id])) for step in plan.steps.values()]


def failed_steps(run: RunState, further: Iterable[str] = ()) -> list[str]:
    """Returns the ids of the steps that failed, and of the `further` ones, in the order of the plan."""
    plan, also = run.plan, set(further)
    assert plan is not None
    failed = (TaskState.FAILED, TaskState.REJECTED)
    return [id_ for id_, task_id in plan.tasks.items() if id_ in also or run.tasks[task_id].state in failed]


def plan_failure(run: RunState, message: str, further: Iterable[str] = ()) -> Failure:
    """Returns the failure of a run whose plan cannot be completed; `further` steps failed too."""
    plan = run.plan
    assert plan is not None
    names = ", ".join(failed_steps(run, further)[:MAX_NAMED])
    metadata = (
        ("failed_steps", names[:MAX_NAMES]),
        ("replans", str(plan.counters.replans)),
        ("suggestion", "submit a simpler goal, or one goal for each part of it"),
    )
    return Failure("FAILED_PRECONDITION", PLAN_FAILED, message, metadata)


def is_over(run: RunState) -> bool:
    """True if the run has its answer: that of the synthesis, or that of the plan's only sink."""
    plan = run.plan
    assert plan is not None
    if plan.synthesis:
        return run.tasks[plan.synthesis].state is TaskState.COMPLETED
    if plan.planner or plan.open or len(plan.sinks) != 1:
        return False
    task_id = plan.tasks.get(plan.sinks[0])  # None while its task is not created yet
    return task_id is not None and run.tasks[task_id].state is TaskState.COMPLETED


def answer_task(run: RunState, decided: Sequence[ev.Event]) -> Task:
    """Returns the task whose answer is that of a run that completes with the decided events."""
    plan = run.plan
    assert plan is not None
    sinks = next((sinks_of(event.plan) for event in decided if isinstance(event, ev.Planned)), plan.sinks)
    return run.tasks[plan.synthesis or plan.tasks[sinks[0]]]
