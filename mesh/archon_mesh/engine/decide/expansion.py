"""Decides about the planner's reply to an expansion: everything that has begun, or waits as before, goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from archon_mesh.engine import events as ev
from archon_mesh.engine.decide.plan import (
    ask_for_expansion,
    fail,
    finish,
    new_doubts,
    new_tasks,
    planner_task,
    role_of,
    without_statuses,
    would_replan,
)
from archon_mesh.engine.decide.plan_reply import AcceptedPlan
from archon_mesh.engine.decide.termination import stop
from archon_mesh.engine.plan import SubTask, SubTaskStatus
from archon_mesh.engine.plan import Task as PlanTask
from archon_mesh.engine.plan.expand import awaits_expansion
from archon_mesh.engine.plan.order import dependants, topological_order
from archon_mesh.engine.plan_progress import due_places
from archon_mesh.engine.plan_state import handled_after, kept_by_expansion
from archon_mesh.engine.state import RunState
from archon_mesh.engine.types import Failure, TaskState

_WITHOUT_RESULT = (TaskState.FAILED, TaskState.REJECTED, TaskState.CANCELED)


def expand_plan(run: RunState, decided: list[ev.Event], accepted: AcceptedPlan, by: str) -> list[ev.Event]:
    """The decided events, the end of the steps that others take the place of, the plan, and the tasks of its new steps.
    `by` is the planner's task that made it."""
    state = run.plan
    assert state is not None
    plan = without_statuses(accepted.plan)
    steps = {step.id: step for step in plan.subtasks}
    revision = state.revision + 1
    kept = kept_by_expansion(state, steps, run.tasks)
    replaced = Failure("CANCELLED", "CANCELLED", f"revision {revision} of the plan has its steps instead")
    stopped: set[str] = set()
    events = [*decided]
    for id_, task_id in state.tasks.items():
        if id_ not in kept:
            events += stop(run, run.tasks[task_id], replaced, stopped)
    created, tasks = new_tasks(run, plan, kept)
    events += [ev.Planned(by, revision, plan, accepted.changes, expansion=True), *created]
    handled = handled_after(state, run.tasks)
    states = {id_: run.tasks[task_id].state for id_, task_id in kept.items()}
    states |= {id_: TaskState.CANCELED for id_, task_id in kept.items() if run.tasks[task_id].unneeded}
    events += _skipped(run, plan, tasks, states, handled)
    if doubts := new_doubts(run, state.counters, steps, states, len(created)):
        return [*events, *doubts]
    return _followed(run, events, steps, tasks, states, handled, by)


def _followed(
    run: RunState,
    events: list[ev.Event],
    steps: Mapping[str, SubTask],
    tasks: Mapping[str, str],
    states: Mapping[str, TaskState],
    handled: frozenset[str],
    by: str,
) -> list[ev.Event]:
    """The events that follow steps that failed meanwhile, the next expansion, or the end."""
    state = run.plan
    assert state is not None
    policy = state.rules.policy
    if would_replan(state.counters, policy):
        if state.counters.replans < policy.max_replans:
            return [*events, planner_task(run, events)]
        return fail(run, events, f"a step of the plan failed after {policy.max_replans} replans", {by}, None)
    if due_places(steps, states, handled):
        return ask_for_expansion(run, events, {by}, state.expansions + 1)
    if any(id_ not in states or not states[id_].final for id_ in steps):
        return events
    return finish(run, events, tasks, steps, {by})


def _skipped(
    run: RunState,
    plan: PlanTask,
    tasks: Mapping[str, str],
    states: dict[str, TaskState],
    handled: frozenset[str],
) -> list[ev.Event]:
    """Ends the steps that can no longer start, because they need the result of one that did not complete, and adds
    their states."""
    by_id = {step.id: step for step in plan.subtasks}
    events: list[ev.Event] = []
    for id_ in topological_order(plan.subtasks, dependants(plan)):
        step, task = by_id[id_], run.tasks.get(tasks[id_])
        if step.partial_input or (task is not None and (task.ended or task.attempt)):
            continue
        missing = [each for each in step.dependencies if states.get(each) in _WITHOUT_RESULT]
        missing = [each for each in missing if not awaits_expansion(_with_state(by_id[each], states), handled)]
        if missing and not step.has_enough({*step.dependencies} - {*missing}):
            message = f"skipped: step {missing[0]!r}, whose result it needs, did not complete"
            failure = Failure("CANCELLED", "CANCELLED", message, (("step_id", missing[0]),))
            events.append(ev.TaskEnded(tasks[id_], role_of(run, step), 0, TaskState.CANCELED, failure))
            states[id_] = TaskState.CANCELED
    return events


def _with_state(step: SubTask, states: Mapping[str, TaskState]) -> SubTask:
    failed = states[step.id] in (TaskState.FAILED, TaskState.REJECTED)
    return replace(step, status=SubTaskStatus.FAILED if failed else SubTaskStatus.SKIPPED)
