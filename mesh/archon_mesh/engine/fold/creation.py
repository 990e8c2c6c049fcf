"""Folds the events that create a run and its tasks, and those that add facts about them."""

from __future__ import annotations

from dataclasses import replace

from archon_mesh.engine import events as ev
from archon_mesh.engine.fold.plan import task_added, waits_for
from archon_mesh.engine.plan_state import PlanState
from archon_mesh.engine.state import RunState
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import PLAN, PLAN_RULES, TaskState


def submitted(run: RunState, event: ev.Submitted, time: float) -> None:
    run.submission, run.owner, run.epoch, run.origin = event.submission, event.owner, event.epoch, event.origin
    run.state, run.create_time = TaskState.WORKING, time
    if event.submission.strategy == PLAN:
        run.plan = PlanState(rules=event.submission.plan_rules or PLAN_RULES)


def claimed(run: RunState, event: ev.Claimed, time: float) -> None:
    run.owner, run.epoch, run.origin = event.owner, event.epoch, event.origin


def task_created(run: RunState, event: ev.TaskCreated, time: float) -> None:
    assert run.submission is not None
    if event.parent:
        return  # the Delegated event before has created it
    predecessors = event.predecessors or _along_edges(run, event.role)
    task = Task(event.task_id, event.role, predecessors, step_id=event.step_id, align=event.align)
    for task_id in predecessors:
        predecessor = run.tasks[task_id]
        predecessor.successors.append(event.task_id)
        task.missing += waits_for(run, task, predecessor)
    run.tasks[event.task_id] = task
    run.root_ids.append(event.task_id)
    run.incomplete += 1
    if run.plan is not None:
        task_added(run, task, time)


def _along_edges(run: RunState, role: str) -> tuple[str, ...]:
    """The tasks of the roles upstream of this one: a pipeline's tasks are created in topological order."""
    assert run.submission is not None
    upstream = [edge.upstream for edge in run.submission.edges if edge.downstream == role]
    if not upstream:
        return ()
    tasks = run.tasks
    return tuple([task_id for task_id in run.root_ids if tasks[task_id].role in upstream])


def published(run: RunState, event: ev.Published, time: float) -> None:
    task = run.tasks[event.task_id]
    if event.seq == task.result_seq or not task.items:
        task.memory_version = event.version
        return
    task.items = tuple(replace(item, version=event.version) if item.seq == event.seq else item for item in task.items)


def recorded(run: RunState, event: ev.Recorded, time: float) -> None:
    """Changes only which frames are applied: call records are stored outside of the events."""
    task = run.tasks.get(event.task_id)
    if task is not None and event.sequence and event.attempt == task.attempt:
        task.applied = max(task.applied, event.sequence)
