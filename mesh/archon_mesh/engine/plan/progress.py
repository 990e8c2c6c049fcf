"""The progress of a task: which subtasks may start, which can no longer, and whether all have ended.

The task must be a plan, as `Plan.of` checks: then one subtask can start or is executing until all have ended, if the
dependants of each failed subtask are skipped.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from archon_mesh.engine.plan.expand import awaits_expansion
from archon_mesh.engine.plan.order import dependants
from archon_mesh.engine.plan.subtask import WAITING, SubTask, SubTaskStatus
from archon_mesh.engine.plan.task import Task


def ready_subtasks(task: Task, handled: Collection[str] = ()) -> tuple[SubTask, ...]:
    """Returns the subtasks that may start, in their order: those with as many completed dependencies as they need, and,
    with `partial_input`, those whose dependencies have ended. Subtasks with `expand` never start. `handled` as for
    `due_expansions`. For plans as values: a run obeys `RunState.ready`, which knows its pauses and attempts too."""
    completed = task.completed_ids
    ended = frozenset(each.id for each in task.subtasks if each.has_ended and not awaits_expansion(each, handled))
    return tuple(
        subtask
        for subtask in task.subtasks
        if not subtask.expand and (subtask.is_ready(completed) or (subtask.partial_input and _has_only(subtask, ended)))
    )


def _has_only(subtask: SubTask, ended: Collection[str]) -> bool:
    return subtask.status in WAITING and all(id_ in ended for id_ in subtask.dependencies)


def skip_dependants(task: Task, failed_id: str) -> Task:
    """Returns the task in which all dependants of a failed subtask, direct or not, are skipped.

    Subtasks with `partial_input`, those that can still have their quorum, and the dependants of them alone, are kept,
    as are those that have started.
    """
    dag = dependants(task)
    by_id = {subtask.id: subtask for subtask in task.subtasks}
    gone = {each.id for each in task.subtasks if each.has_ended and each.status is not SubTaskStatus.COMPLETED}
    gone.add(failed_id)
    skipped: set[str] = set()
    open_ids = [failed_id]
    while open_ids:
        for id_ in dag.get(open_ids.pop(), ()):
            subtask = by_id[id_]
            if id_ in skipped or subtask.status not in WAITING or subtask.partial_input:
                continue
            if not subtask.has_enough(by_id.keys() - gone):
                skipped.add(id_)
                gone.add(id_)
                open_ids.append(id_)
    if not skipped:
        return task
    subtasks = (each.with_status(SubTaskStatus.SKIPPED) if each.id in skipped else each for each in task.subtasks)
    return replace(task, subtasks=tuple(subtasks))


def has_ended(task: Task) -> bool:
    """Tells whether all subtasks have completed, failed or been skipped."""
    return all(subtask.has_ended for subtask in task.subtasks)
