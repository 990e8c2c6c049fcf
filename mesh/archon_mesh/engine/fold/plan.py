"""Folds the events of a plan: its revisions, and the ends of the tasks that execute its steps."""

from __future__ import annotations

from dataclasses import replace

from archon_mesh.engine import events as ev
from archon_mesh.engine.plan import replan_reason
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
        sum(not run.tasks[task_id].ended for task_id in kept.values()),
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


def task_added(run: RunState, task: Task) -> None:
    """Adds a task that is new to the plan: of a step, of the planner, which with `align` checks the plan, or the
    synthesis, which has predecessors."""
    plan = run.plan
    assert plan is not None
    if task.step_id:
        task.capability = plan.steps[task.step_id].capability
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


def waits_for(run: RunState, task: Task, predecessor: Task) -> bool:
    """Returns whether a task has to wait for a predecessor: until it completes, or with partial input until it
    ends."""
    plan = run.plan
    if plan is not None and task.step_id and plan.steps[task.step_id].partial_input:
        return not predecessor.ended or waits_for_expansion(run, predecessor)
    return predecessor.state is not TaskState.COMPLETED


def step_ended(run: RunState, task: Task, confidence: float = 1.0) -> None:
    """Counts the end of a step's task; does nothing if a later plan has replaced it. `confidence` is the confidence in
    its result."""
    plan = run.plan
    assert plan is not None
    if not plan.in_force(task):
        return
    plan.open -= 1
    if task.state is TaskState.COMPLETED:
        plan.unchecked = bool(plan.alignment)
        plan.counters = plan.counters.with_completed(task.step_id)
        if confidence < plan.counters.confidence:
            plan.counters = replace(plan.counters, confidence=confidence)
        return
    step = plan.steps[task.step_id]
    failed = task.state is not TaskState.CANCELED
    if failed and waits_for_expansion(run, task):
        return  # neither a reason for a replan nor for a start: its replacement decides
    for task_id in task.successors:
        successor = run.tasks[task_id]
        if plan.in_force(successor) and plan.steps[successor.step_id].partial_input:
            successor.missing -= 1
    if failed:
        plan.counters = failed_counters(plan, step, task.failure)


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
