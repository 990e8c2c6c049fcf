"""Decides about a plan: what a new one replaces, what follows the end of a step, and how the run gets its answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from archon_mesh.core.plan import (
    DEFAULT_POLICY,
    MAX_REPLANS,
    Plan,
    ReplanCounters,
    SubTask,
    SubTaskStatus,
    replan_reason,
)
from archon_mesh.core.plan import Task as PlanTask
from archon_mesh.core.run import events as ev
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.decide.plan_reply import AcceptedPlan
from archon_mesh.core.run.decide.termination import orphans, stop, then_end
from archon_mesh.core.run.plan_progress import plan_failure
from archon_mesh.core.run.plan_state import keeps_task, sinks_of
from archon_mesh.core.run.state import RunState
from archon_mesh.core.run.task import Task
from archon_mesh.core.run.types import Failure, TaskState


def plan_changed(
    run: RunState, decided: list[ev.Event], accepted: AcceptedPlan, *, by: str = "", edit: inp.EditPlan | None = None
) -> list[ev.Event]:
    """The decided events, the end of what the new plan replaces, the plan, and the tasks of its new steps. `by` is the
    planner's task that made it, `edit` the edit that did."""
    state = run.plan
    assert state is not None
    plan = accepted.plan
    steps = {step.id: step for step in plan.subtasks}
    revision = state.revision + 1
    kept = {
        id_: task_id
        for id_, task_id in state.tasks.items()
        if id_ in steps and keeps_task(run.tasks[task_id], edited=edit is not None)
    }
    replaced = Failure("CANCELLED", "CANCELLED", f"revision {revision} of the plan replaces the step")
    stopped: set[str] = set()
    events = [*decided]
    for id_, task_id in state.tasks.items():
        if id_ not in kept:
            events += stop(run, run.tasks[task_id], replaced, stopped)
    editor = (edit.identity, edit.edit_id) if edit is not None else ("", "")
    planned = ev.Planned(by, revision, without_statuses(plan), accepted.changes, *editor)
    created: list[ev.Event] = []
    tasks = dict(kept)
    for id_ in Plan.of(plan).execution_order:
        if id_ not in tasks:
            tasks[id_] = _new_task_id(run, len(created))
            predecessors = tuple(tasks[dependency] for dependency in dict.fromkeys(steps[id_].dependencies))
            created.append(ev.TaskCreated(tasks[id_], steps[id_].role, predecessors=predecessors, step_id=id_))
    events += [planned, *created]
    busy = edit is not None and bool(state.planner)
    if edit is None and created:
        counters = state.counters.with_replan() if revision > 1 else state.counters
        done = {id_ for id_, task_id in kept.items() if run.tasks[task_id].state is TaskState.COMPLETED}
        ready = [steps[id_] for id_ in steps if id_ not in kept and done.issuperset(steps[id_].dependencies)]
        events += _doubts(run, counters, ready, len(created))
    if busy or created or any(not run.tasks[task_id].ended for task_id in kept.values()):
        return events
    return _finish(run, events, tasks, steps, {by} if by else ())


def step_ended(run: RunState, task: Task, decided: list[ev.Event], state: TaskState) -> list[ev.Event]:
    """What follows the end of a step's task, which the decided events hold: the next steps start by themselves; after a
    failure the plan is made anew, or the dependants are skipped; after the last step the run gets its answer."""
    plan = run.plan
    assert plan is not None
    events = [*decided, *orphans(run, task)]
    if not plan.in_force(task):
        return events
    if state is TaskState.COMPLETED:
        if plan.planner:
            return events
        if plan.open > 1:
            waiting = (run.tasks[task_id] for task_id in task.successors)
            ready = [plan.steps[each.step_id] for each in waiting if plan.in_force(each) and each.missing == 1]
            return [*events, *_doubts(run, plan.counters, ready, 0)]
        return _finish(run, events, plan.tasks, plan.steps, {task.task_id}, completed=task)
    if plan.planner:
        return events  # the plan that it makes decides what follows
    counters = plan.counters.with_failed_attempt(task.step_id).with_failed(plan.steps[task.step_id])
    if replan_reason(counters) is not None:
        assert run.submission is not None
        return [*events, ev.TaskCreated(_new_task_id(run, 0), run.submission.roles[0])]
    if counters.replans >= MAX_REPLANS and _would_replan(counters):
        message = f"step {task.step_id!r} of the plan failed after {MAX_REPLANS} replans"
        again = counters.failures.get(task.step_id, 0) >= DEFAULT_POLICY.failures_of_subtask
        kind = "planning.under_decomposition" if again else ""
        return _fail(run, events, message, {task.task_id}, task, kind)
    skipped = _skipped(run, task)
    events += skipped
    if plan.open > 1 + len(skipped):
        return events
    return _finish(run, events, plan.tasks, plan.steps, {task.task_id}, failed=task)


def _doubts(run: RunState, counters: ReplanCounters, ready: Collection[SubTask], created: int) -> list[ev.Event]:
    """Asks for another plan if the confidence in a step that would start next is too low, and a replan is left."""
    lowest = min((step.confidence for step in ready), default=1.0)
    if replan_reason(ReplanCounters(confidence=lowest, replans=counters.replans)) is None:
        return []
    assert run.submission is not None
    return [ev.TaskCreated(_new_task_id(run, created), run.submission.roles[0])]


def _would_replan(counters: ReplanCounters) -> bool:
    """Whether the plan would be made anew if that were allowed once more."""
    allowed = ReplanCounters(counters.failures, counters.consecutive_failures, counters.critical_failure)
    return replan_reason(allowed) is not None


def _skipped(run: RunState, task: Task) -> list[ev.Event]:
    """Ends the steps that can no longer start, because they need the result of one that did not complete."""
    plan = run.plan
    assert plan is not None
    events: list[ev.Event] = []
    seen = {task.task_id}
    pending = [task]
    while pending:
        source = pending.pop(0)
        message = f"skipped: step {source.step_id!r}, whose result it needs, did not complete"
        failure = Failure("CANCELLED", "CANCELLED", message, (("step_id", source.step_id),))
        for task_id in source.successors:
            other = run.tasks[task_id]
            if task_id in seen or not plan.in_force(other) or other.ended or plan.steps[other.step_id].partial_input:
                continue
            seen.add(task_id)
            pending.append(other)
            events.append(ev.TaskEnded(task_id, other.role, other.attempt, TaskState.CANCELED, failure))
    return events


def _finish(
    run: RunState,
    events: list[ev.Event],
    tasks: Mapping[str, str],
    steps: Mapping[str, SubTask],
    closed: Collection[str],
    *,
    completed: Task | None = None,
    failed: Task | None = None,
) -> list[ev.Event]:
    """Every step has ended: the answer of a single sink is that of the run, else the planner combines the results.

    `tasks` are those of the `steps`; the attempts of the tasks in `closed` ended with these events, `completed` or
    `failed` was the last of the steps.
    """
    done = {
        id_: tasks[id_]
        for id_ in steps
        if run.tasks[tasks[id_]].state is TaskState.COMPLETED
        or (completed is not None and tasks[id_] == completed.task_id)
    }
    if not done:
        return _fail(run, events, "no step of the plan completed", closed, failed)
    sinks = sinks_of(PlanTask("", "", "", tuple(steps.values())))
    if len(sinks) == 1 and sinks[0] in done:
        return then_end(run, events, set(closed), TaskState.COMPLETED)
    assert run.submission is not None
    used = {dependency for id_ in done for dependency in steps[id_].dependencies}
    results = tuple(task_id for id_, task_id in done.items() if id_ not in used)
    created = sum(type(event) is ev.TaskCreated for event in events)
    return [*events, ev.TaskCreated(_new_task_id(run, created), run.submission.roles[0], predecessors=results)]


def _fail(
    run: RunState, events: list[ev.Event], message: str, closed: Collection[str], task: Task | None, kind: str = ""
) -> list[ev.Event]:
    failure = plan_failure(run, message, [task.step_id] if task is not None else [], kind)
    cancel = ev.CancelRequested("", failure.message, failure.reason)
    return then_end(run, [*events, cancel], set(closed), TaskState.FAILED, failure)


def _new_task_id(run: RunState, created: int) -> str:
    assert run.submission is not None
    return f"{run.submission.run_id}.{len(run.tasks) + created + 1}"


def without_statuses(plan: PlanTask) -> PlanTask:
    """Returns the plan as events hold it: the statuses and results of its steps are those of their tasks."""
    steps = tuple(step.with_result(None).with_status(SubTaskStatus.PENDING) for step in plan.subtasks)
    return PlanTask("", "", plan.goal, steps, plan.context)
