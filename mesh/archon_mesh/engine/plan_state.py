"""The plan of a run: its steps, their tasks, and the counters that a replan is decided by. Only the fold changes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from archon_mesh.engine.plan import ReplanCounters, SubTask
from archon_mesh.engine.plan import Task as Plan
from archon_mesh.engine.plan.order import dependants, topological_order
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import PLAN_RULES, PlanRules, TaskState

_FAILED = (TaskState.FAILED, TaskState.REJECTED)
_DECIDED = (TaskState.COMPLETED, *_FAILED)


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
    """Why that plan is asked for; empty for the first one, and for an expansion."""
    expanding: tuple[str, ...] = ()
    """The steps in whose place that task plans; empty unless it expands the plan."""
    places: tuple[str, ...] = ()
    """The steps that may be expanded."""
    handled: frozenset[str] = frozenset()
    """Failed steps that an expansion was for."""
    expansions: int = 0
    """How often the plan was expanded."""
    alignment: str = ""
    """The planner's task that checks whether the plan still leads to the goal; empty if none is in progress."""
    alignments: int = 0
    """How many such tasks there were."""
    unchecked: bool = False
    """True if a step has completed since that task was asked."""
    synthesis: str = ""
    """The planner's task that combines the results; empty before it is created."""
    counters: ReplanCounters = field(default_factory=ReplanCounters)
    rules: PlanRules = PLAN_RULES

    def is_place(self, task: Task) -> bool:
        """True if the task is never dispatched, because the planner plans the replacement of its step."""
        return bool(self.places) and self.in_force(task) and self.steps[task.step_id].expand

    def in_force(self, task: Task) -> bool:
        """True if the task executes a step of this plan, and not one that a later plan has replaced."""
        return bool(task.step_id) and self.tasks.get(task.step_id) == task.task_id

    def holds(self, task: Task) -> bool:
        """True if the task's step waits for the next plan, because the confidence in it, or in a result, is too low."""
        return bool(self.planner) and not task.attempt and self.in_force(task) and self._is_doubtful(task)

    def _is_doubtful(self, task: Task) -> bool:
        """True if the confidence in the task's step is a reason for another plan before it starts."""
        confidence = min(self.steps[task.step_id].confidence, self.counters.confidence)
        return confidence < self.rules.policy.min_confidence


def sinks_of(plan: Plan) -> tuple[str, ...]:
    """Returns the ids of the steps that no other step depends on, in order."""
    used = {dependency for step in plan.subtasks for dependency in step.dependencies}
    return tuple(step.id for step in plan.subtasks if step.id not in used)


def handled_after(plan: PlanState, tasks: Mapping[str, Task]) -> frozenset[str]:
    """Returns the failed steps that an expansion was for, after the one that the planner replied to."""
    return plan.handled.union(
        id_ for id_ in plan.expanding if id_ in plan.tasks and tasks[plan.tasks[id_]].state in _FAILED
    )


def kept_by_expansion(plan: PlanState, steps: Mapping[str, SubTask], tasks: Mapping[str, Task]) -> dict[str, str]:
    """Returns the tasks that steps keep when the plan is expanded, by the steps' ids: of all steps that have begun or
    failed, and of steps that wait as before for the same tasks. `steps` are the new plan's, `tasks` all of the run."""
    handled = handled_after(plan, tasks)
    kept: dict[str, str] = {}
    pending = [id_ for id_ in steps if id_ in plan.tasks]
    for id_ in pending:
        task = tasks[plan.tasks[id_]]
        # A task whose input cannot be made fails before its first attempt, and a rule decides without one.
        if task.unneeded or ((task.attempt > 0 or task.state in _DECIDED) and not task.stopping):
            kept[id_] = task.task_id
    waiting = {
        id_
        for id_ in pending
        if id_ not in kept
        and steps[id_] == plan.steps[id_]
        and handled.isdisjoint(steps[id_].dependencies)
        and not tasks[plan.tasks[id_]].stopping
    }
    # In the order of execution: steps that wait for a replaced one are replaced too.
    order = Plan("", "", "", tuple(steps.values()))
    for id_ in topological_order(order.subtasks, dependants(order)):
        if id_ in waiting and all(each in kept for each in steps[id_].dependencies):
            kept[id_] = plan.tasks[id_]
    return {id_: kept[id_] for id_ in pending if id_ in kept}


def keeps_task(task: Task, *, edited: bool = False) -> bool:
    """Returns whether a step keeps its task when the plan changes: if it has completed or is in progress; in an edit,
    which starts nothing again, also if it failed, or was stopped because no step needs it."""
    if task.unneeded:
        return edited
    if task.ended:
        return task.state is TaskState.COMPLETED or (edited and task.attempt > 0)
    return task.attempt > 0 and not task.stopping


def is_same_step(step: SubTask, other: SubTask) -> bool:
    """Returns whether two steps ask the same role for the same, whatever they depend on."""
    return _asked(step) == _asked(other)


def _asked(step: SubTask) -> tuple[object, ...]:
    described = step.description, step.expected_output, step.output_schema, step.decision
    return *described, step.tool_name, step.tool_args, step.role, step.capability, step.assigned_by, step.bid_for
