"""Folds the events of a plan: its revisions, and the ends of the tasks that execute its steps."""

from __future__ import annotations

from dataclasses import replace

from archon_mesh.engine import events as ev
from archon_mesh.engine.plan import SubTask, replan_reason
from archon_mesh.engine.plan_progress import (
    due_expansions,
    failed_counters,
    next_confidence,
    waits_for_expansion,
)
from archon_mesh.engine.plan_state import PlanState, handled_after, keeps_task, kept_by_expansion, sinks_of
from archon_mesh.engine.state import RunState
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import TaskState


def planned(run: RunState, event: ev.Planned, time: float) -> None:
    plan = run.plan
    assert plan is not None
    steps = {step.id: step for step in event.plan.subtasks}
    edited = bool(event.edit_id)
    if event.expansion:
        kept = kept_by_expansion(plan, steps, run.tasks)
    else:
        kept = {
            id_: task_id
            for id_, task_id in plan.tasks.items()
            if id_ in steps and keeps_task(run.tasks[task_id], edited=edited)
        }
    handled = handled_after(plan, run.tasks) if event.expansion else plan.handled
    is_replan = event.revision > 1 and not edited and not event.expansion
    run.plan = PlanState(
        event.plan.goal,
        steps,
        event.plan.context,
        event.changes,
        event.revision,
        run.last_seq,
        kept,
        sinks_of(event.plan),
        sum(run.tasks[task_id].is_open for task_id in kept.values()),
        event.edit_id,
        planner=plan.planner if edited else "",
        reason=plan.reason if edited else "",
        expanding=plan.expanding if edited else (),
        places=tuple(id_ for id_, step in steps.items() if step.expand or step.expand_on_failure),
        handled=handled.intersection(kept),  # a step that starts again may be expanded again
        expansions=plan.expansions + event.expansion,
        alignment=plan.alignment,
        alignments=plan.alignments,
        counters=plan.counters.with_replan() if is_replan else plan.counters,
        rules=plan.rules,
    )


def task_added(run: RunState, task: Task, time: float) -> None:
    """Adds a task that is new to the plan: of a step, of the planner, which with `align` checks the plan, or the
    synthesis, which has predecessors."""
    plan = run.plan
    assert plan is not None
    if task.step_id:
        _begin_to_wait(run, task, plan.steps[task.step_id], time)
        plan.tasks[task.step_id] = task.task_id
        plan.open += 1
    elif task.align:
        plan.alignment, plan.alignments, plan.unchecked = task.task_id, plan.alignments + 1, False
    elif task.predecessors:
        plan.synthesis = task.task_id
    else:
        counters = replace(plan.counters, confidence=min(plan.counters.confidence, next_confidence(run)))
        plan.planner, plan.reason = task.task_id, replan_reason(counters, plan.rules.policy) or ""
        plan.expanding = () if plan.reason else due_expansions(run)


def _begin_to_wait(run: RunState, task: Task, step: SubTask, time: float) -> None:
    """Sets how many results the task of a step waits for, how long after them it starts, and how long it may take."""
    task.capability, task.delay, task.timeout = step.capability, step.delay_seconds, step.timeout_seconds
    if step.quorum and task.missing:
        completed = sum(run.tasks[id_].state is TaskState.COMPLETED for id_ in task.predecessors)
        task.missing = max(0, step.needed - completed)
    if not task.missing:
        task.may_start(time)


def waits_for(run: RunState, task: Task, predecessor: Task) -> bool:
    """Returns whether a task has to wait for a predecessor: until it completes, or with partial input until it
    ends."""
    plan = run.plan
    if plan is not None and task.step_id and plan.steps[task.step_id].partial_input:
        return predecessor.is_open or waits_for_expansion(run, predecessor)
    return predecessor.state is not TaskState.COMPLETED


def step_ended(run: RunState, task: Task, time: float, confidence: float = 1.0) -> None:
    """Counts the end of a step's task; does nothing if a later plan has replaced it, or its end was counted when it was
    ordered to stop. `confidence` is the confidence in its result."""
    plan = run.plan
    assert plan is not None
    if task.unneeded or not plan.in_force(task):
        return
    plan.open -= 1
    if task.state is TaskState.COMPLETED:
        plan.unchecked = bool(plan.alignment)
        plan.counters = plan.counters.with_completed(task.step_id)
        if confidence < plan.counters.confidence:
            plan.counters = replace(plan.counters, confidence=confidence)
        for task_id in task.successors:
            successor = run.tasks[task_id]
            if plan.in_force(successor) and (step := plan.steps[successor.step_id]).quorum and step.partial_input:
                _go_on_without(run, successor, step, time)  # it may have been the last one
        return
    failed = task.state is not TaskState.CANCELED
    if failed and waits_for_expansion(run, task):
        return  # neither a reason for a replan nor for a start: its replacement decides
    for task_id in task.successors:
        successor = run.tasks[task_id]
        if plan.in_force(successor) and plan.steps[successor.step_id].partial_input:
            _go_on_without(run, successor, plan.steps[successor.step_id], time)
        if failed:
            _hurry(run, successor, time)
    if failed:
        plan.counters = failed_counters(run, task, task.failure)


def _go_on_without(run: RunState, task: Task, step: SubTask, time: float) -> None:
    """Has a step with partial input wait no more for a predecessor that ended without a result; with a quorum, it waits
    until all have ended."""
    if not step.quorum:
        task.wait_for_less(time)
    elif not any(waits_for(run, task, run.tasks[id_]) for id_ in task.predecessors):
        task.missing = min(task.missing, 1)
        task.wait_for_less(time)


def _hurry(run: RunState, task: Task, time: float) -> None:
    """Starts the steps that wait to stand by for one that has failed: the other dependencies of its quorum."""
    plan = run.plan
    assert plan is not None
    if plan.in_force(task) and plan.steps[task.step_id].quorum:
        for other in (run.tasks[id_] for id_ in task.predecessors):
            if other.delay and not other.attempt and other.not_before > time:
                other.not_before = time


def step_unneeded(run: RunState, task: Task) -> None:
    """Counts the end of a step whose result no step needs any more, though its attempt has yet to stop."""
    plan = run.plan
    if plan is not None and plan.in_force(task):
        task.unneeded = True
        plan.open -= 1


def alignment_asked(run: RunState, task: Task) -> None:
    """Notes that the planner is asked about the plan with the results that there are now."""
    if run.plan is not None and task.task_id == run.plan.alignment:
        run.plan.unchecked = False


def alignment_closed(run: RunState, task: Task) -> None:
    """Notes that a check of the plan has ended, or is being stopped."""
    if run.plan is not None and task.task_id == run.plan.alignment:
        run.plan.alignment = ""


def attempt_failed(run: RunState, task: Task) -> None:
    """Counts a failed attempt that is retried."""
    plan = run.plan
    if plan is not None and plan.in_force(task) and not plan.steps[task.step_id].expand_on_failure:
        plan.counters = plan.counters.with_failed_attempt(task.step_id)
