"""Who executes a step of a plan: as a decision assigns it, and apart from the steps that it is compared with."""

from __future__ import annotations

from typing import Final

from archon_mesh.engine.state import RunState
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import TaskState

MAX_APART: Final = 32
"""Steps that are compared with each other, up to which they are executed by different instances if there are enough."""


def assignee(run: RunState, task: Task) -> tuple[str, str]:
    """Returns the role that executes the task of a step, and the instance that should: empty if any instance may."""
    plan = run.plan
    assert plan is not None
    if not plan.in_force(task) or not (deciding := plan.steps[task.step_id].assigned_by):
        return task.role, ""
    chosen = run.tasks.get(plan.tasks.get(deciding, ""))
    while chosen is not None and chosen.winner:  # its result may be that of another decision
        chosen = run.tasks.get(plan.tasks.get(chosen.winner, ""))
    if chosen is None or chosen.state is not TaskState.COMPLETED:
        return task.role, ""
    if plan.steps[chosen.step_id].decision and not chosen.attempt:
        return task.role, ""  # nothing was chosen
    return chosen.role, chosen.instance_id


def hedges_of(run: RunState, task: Task) -> list[Task]:
    """Returns the tasks of steps that a quorum or a rule compares with this one, and that start after the measured
    time of this one's role."""
    plan = run.plan
    if plan is None or not plan.in_force(task) or plan.steps[task.step_id].delay_quantile:
        return []
    found: dict[str, Task] = {}
    for task_id in task.successors:
        joined = run.tasks[task_id]
        if len(joined.predecessors) > MAX_APART or not plan.in_force(joined):
            continue
        for id_ in joined.predecessors:
            other = run.tasks[id_]
            if other is not task and plan.in_force(other) and plan.steps[other.step_id].delay_quantile:
                found[id_] = other
    return list(found.values())


def instances_beside(run: RunState, task: Task) -> tuple[str, ...]:
    """Returns the instances that execute, or have executed, the steps beside this one: a rule chooses among their
    results, or a quorum needs only some. So several opinions, copies or bids come from several instances."""
    plan = run.plan
    assert plan is not None
    found: list[str] = []
    for task_id in task.successors:
        joined = run.tasks[task_id]
        if len(joined.predecessors) > MAX_APART or not plan.in_force(joined):
            continue
        step = plan.steps[joined.step_id]
        if step.quorum or step.decision:
            others = (run.tasks[id_] for id_ in joined.predecessors if id_ != task.task_id)
            found += [other.instance_id for other in others if other.role == task.role and other.instance_id]
    return tuple(dict.fromkeys(found))
