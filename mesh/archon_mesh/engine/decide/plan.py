"""Decides about a plan: the steps that a new one replaces, the events after a step's end, and the answer of the run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.alignment import is_check_due
from archon_mesh.engine.decide.join import stop_unneeded
from archon_mesh.engine.decide.plan_reply import AcceptedPlan
from archon_mesh.engine.decide.termination import ending, orphans, stop, then_end
from archon_mesh.engine.plan import (
    MAX_EXPANSIONS,
    Plan,
    ReplanCounters,
    ReplanPolicy,
    SubTask,
    SubTaskStatus,
    replan_reason,
)
from archon_mesh.engine.plan import Task as PlanTask
from archon_mesh.engine.plan_progress import (
    MAX_NAMED,
    can_have_enough,
    due_expansions,
    due_places,
    failed_counters,
    has_answer,
    plan_failure,
)
from archon_mesh.engine.plan_state import is_same_step, keeps_task, sinks_of
from archon_mesh.engine.state import RunState
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import DECISION, Failure, TaskState


def plan_changed(
    run: RunState, decided: list[ev.Event], accepted: AcceptedPlan, *, by: str = "", edit: inp.EditPlan | None = None
) -> list[ev.Event]:
    """The decided events, the end of the tasks that the new plan replaces, the plan, and the tasks of its new steps.
    `by` is the planner's task that made it, `edit` the edit that did."""
    state = run.plan
    assert state is not None
    plan = accepted.plan
    steps = {step.id: step for step in plan.subtasks}
    revision = state.revision + 1
    kept = {
        id_: task_id
        for id_, task_id in state.tasks.items()
        if id_ in steps
        and keeps_task(run.tasks[task_id], edited=edit is not None)
        and (edit is not None or run.tasks[task_id].ended or _continues(run, steps[id_]))
    }
    replaced = Failure("CANCELLED", "CANCELLED", f"revision {revision} of the plan replaces the step")
    stopped: set[str] = set()
    events = [*decided]
    for id_, task_id in state.tasks.items():
        if id_ not in kept:
            events += stop(run, run.tasks[task_id], replaced, stopped)
    editor = (edit.identity, edit.edit_id) if edit is not None else ("", "")
    planned = ev.Planned(by, revision, without_statuses(plan), accepted.changes, *editor, reason=accepted.reason)
    created, tasks = new_tasks(run, plan, kept)
    events += [planned, *created]
    if edit is not None and state.planner:
        return events
    closed = {by} if by else set()
    states = {id_: run.tasks[task_id].state for id_, task_id in kept.items()}
    counters = state.counters.with_replan() if revision > 1 else state.counters
    if edit is None and (doubts := new_doubts(run, counters, steps, states, len(created))):
        return [*events, *doubts]
    if due_places(steps, states, state.handled):
        return ask_for_expansion(run, events, closed, state.expansions)
    if created or any(run.tasks[task_id].is_open for task_id in kept.values()):
        return events
    return finish(run, events, tasks, steps, closed)


def _continues(run: RunState, step: SubTask) -> bool:
    """Whether a step of a new plan is the one with its id that is in progress: it asks for the same, and needs nothing
    that the task in progress does not have. Planners that number their steps use an id again for another step."""
    state = run.plan
    assert state is not None
    before = state.steps[step.id]
    completed = {id_ for id_ in before.dependencies if run.tasks[state.tasks[id_]].state is TaskState.COMPLETED}
    has_all = completed.issuperset(step.dependencies) or (step.quorum and step.has_enough(completed))
    return is_same_step(before, step) and bool(has_all)


def new_tasks(run: RunState, plan: PlanTask, kept: Mapping[str, str]) -> tuple[list[ev.Event], dict[str, str]]:
    """Creates the tasks of the steps that keep none. Returns the events, and the tasks of all steps."""
    assert run.submission is not None
    steps = {step.id: step for step in plan.subtasks}
    created: list[ev.Event] = []
    tasks = dict(kept)
    for id_ in Plan.of(plan).execution_order:
        if id_ not in tasks:
            tasks[id_] = new_task_id(run, len(created))
            predecessors = tuple(tasks[dependency] for dependency in dict.fromkeys(steps[id_].dependencies))
            created.append(ev.TaskCreated(tasks[id_], role_of(run, steps[id_]), predecessors=predecessors, step_id=id_))
    return created, tasks


def role_of(run: RunState, step: SubTask) -> str:
    """Returns the role of a step's task: the planner's if the step will be expanded, DECISION if its rule has to
    decide."""
    assert run.submission is not None
    if step.expand:
        return run.submission.roles[0]
    return step.role or (DECISION if step.decision else "")


def ask_for_expansion(
    run: RunState, events: list[ev.Event], closed: Collection[str], expansions: int
) -> list[ev.Event]:
    """The events, and the planner's task that expands the plan; the end of the run if `expansions` are the most."""
    assert run.plan is not None
    if expansions >= MAX_EXPANSIONS:
        message = f"the plan was expanded {MAX_EXPANSIONS} times, the most that a run may have"
        return fail(run, events, message, closed, None)
    if not run.plan.rules.has_planner:
        return fail(run, events, "a step must be expanded, and the run has no planner", closed, None)
    return [*events, planner_task(run, events)]


def planner_task(run: RunState, events: Collection[ev.Event]) -> ev.Event:
    """A further task of the planner, after the events."""
    assert run.submission is not None
    created = sum(type(event) is ev.TaskCreated for event in events)
    return ev.TaskCreated(new_task_id(run, created), run.submission.roles[0])


def new_doubts(
    run: RunState,
    counters: ReplanCounters,
    steps: Mapping[str, SubTask],
    states: Mapping[str, TaskState],
    created: int,
) -> list[ev.Event]:
    """Asks for another plan if the confidence in a new step that may start is too low. `states` are the other steps'
    states; `created` is the number of tasks that the same decision created."""
    done = {id_ for id_, state in states.items() if state is TaskState.COMPLETED}
    ready = [step for id_, step in steps.items() if id_ not in states and step.has_enough(done)]
    return _doubts(run, counters, ready, created)


def _doubts(run: RunState, counters: ReplanCounters, ready: Collection[SubTask], created: int) -> list[ev.Event]:
    """Asks for another plan if the confidence in a step that would start next is too low, and a replan is left."""
    lowest = min((step.confidence for step in ready if not step.expand), default=1.0)
    assert run.plan is not None
    doubts = ReplanCounters(confidence=min(lowest, counters.confidence), replans=counters.replans)
    if replan_reason(doubts, run.plan.rules.policy) is None:
        return []
    assert run.submission is not None
    return [ev.TaskCreated(new_task_id(run, created), run.submission.roles[0])]


def step_ended(run: RunState, task: Task, decided: list[ev.Event], state: TaskState) -> list[ev.Event]:
    """The events after the end of a step's task, which the decided events hold: the next steps start by themselves;
    after a failure the plan is made anew, or the dependants are skipped; after the last step the run gets its
    answer."""
    plan = run.plan
    assert plan is not None
    events = [*decided, *orphans(run, task)]
    if not plan.in_force(task):
        return events
    return _completed(run, task, events) if state is TaskState.COMPLETED else _failed(run, task, events, state)


def _completed(run: RunState, task: Task, events: list[ev.Event]) -> list[ev.Event]:
    """The events after a step that has completed."""
    plan, result = run.plan, _result_of(events, task)
    assert plan is not None
    closed = {task.task_id}
    stopping, count = stop_unneeded(run, task)
    events += stopping
    open_steps = plan.open - count
    if not plan.planner:
        confidence = min(plan.counters.confidence, getattr(result, "confidence", 1.0))
        counters = replace(plan.counters, confidence=confidence)
        if open_steps > 1 and (doubts := _doubts(run, counters, _starting(run, task), 0)):
            return [*events, *doubts]
        if due_expansions(run, {task.step_id: TaskState.COMPLETED}):
            return ask_for_expansion(run, events, closed, plan.expansions)
    if open_steps > 1 or plan.planner:
        return [*events, *_alignment_check(run, task)]
    return finish(run, events, plan.tasks, plan.steps, closed, completed=task)


def _starting(run: RunState, completed: Task) -> list[SubTask]:
    """The steps that the end of this one lets start."""
    plan = run.plan
    assert plan is not None
    waiting = (run.tasks[task_id] for task_id in completed.successors)
    return [plan.steps[each.step_id] for each in waiting if plan.in_force(each) and each.missing == 1]


def _failed(run: RunState, task: Task, events: list[ev.Event], state: TaskState) -> list[ev.Event]:
    """The events after a step that has failed, or was cancelled."""
    plan = run.plan
    assert plan is not None
    closed, ended, step = {task.task_id}, {task.step_id: state}, plan.steps[task.step_id]
    if plan.open == 1 and not plan.planner and has_answer(run):
        return finish(run, events, plan.tasks, plan.steps, closed, failed=task)
    if not plan.planner and due_expansions(run, ended):
        return ask_for_expansion(run, events, closed, plan.expansions)
    if plan.planner and (not plan.expanding or step.expand_on_failure):
        return events  # the plan that it makes decides about the next steps
    end = _result_of(events, task)
    counters = failed_counters(run, task, end.failure if end is not None else None)
    if would_replan(counters, plan.rules.policy):
        return _replan(run, task, events, counters)
    skipped = _skipped(run, task)
    events += skipped
    ended |= {run.tasks[event.task_id].step_id: event.state for event in skipped}
    if skipped and not plan.planner and due_expansions(run, ended):
        return ask_for_expansion(run, events, closed, plan.expansions)
    if plan.open > 1 + len(skipped) or plan.planner:
        return events
    return finish(run, events, plan.tasks, plan.steps, closed, failed=task)


def _result_of(events: Collection[ev.Event], task: Task) -> ev.ResultReceived | ev.TaskEnded | None:
    for event in events:
        if isinstance(event, (ev.ResultReceived, ev.TaskEnded)) and event.task_id == task.task_id:
            return event
    return None


def _replan(run: RunState, task: Task, events: list[ev.Event], counters: ReplanCounters) -> list[ev.Event]:
    """Asks the planner for another plan, unless it is at work; the end of the run if no replan is left."""
    plan = run.plan
    assert plan is not None
    if plan.planner:
        return events
    policy = plan.rules.policy
    if counters.replans < policy.max_replans:
        return [*events, planner_task(run, events)]
    after = f"after {policy.max_replans} replans" if plan.rules.has_planner else "and the run has no planner"
    message = f"step {task.step_id!r} of the plan failed {after}"
    again = counters.failures.get(task.step_id, 0) >= policy.failures_of_subtask
    return fail(run, events, message, {task.task_id}, task, "planning.under_decomposition" if again else "")


def alignment_checked(
    run: RunState, task: Task, decided: list[ev.Event], accepted: AcceptedPlan | None
) -> list[ev.Event]:
    """The events after the end of a check of the plan, which the decided events hold: the `accepted` plan in place of
    the one in force, or, if steps have completed since, one further check."""
    events = [*decided, *orphans(run, task)]
    if accepted is not None:
        return plan_changed(run, events, accepted, by=task.task_id)
    return [*events, *_alignment_check(run, None)]


def _alignment_check(run: RunState, completed: Task | None) -> list[ev.Event]:
    """The planner's task that checks whether the plan still leads to the goal, if it is due."""
    if not is_check_due(run, completed):
        return []
    assert run.submission is not None
    return [ev.TaskCreated(new_task_id(run, 0), run.submission.roles[0], align=True)]


def would_replan(counters: ReplanCounters, policy: ReplanPolicy) -> bool:
    """Returns whether the plan would be made anew for its failures if that were allowed once more."""
    allowed = ReplanCounters(counters.failures, counters.consecutive_failures, counters.critical_failure)
    return replan_reason(allowed, replace(policy, max_replans=1)) is not None


def _skipped(run: RunState, task: Task) -> list[ev.TaskEnded]:
    """Ends the steps that can no longer start, because they need the result of one that did not complete."""
    plan = run.plan
    assert plan is not None
    events: list[ev.TaskEnded] = []
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
            if can_have_enough(run, other, seen):
                continue
            seen.add(task_id)
            pending.append(other)
            events.append(ev.TaskEnded(task_id, other.role, other.attempt, TaskState.CANCELED, failure))
    return events


def finish(
    run: RunState,
    events: list[ev.Event],
    tasks: Mapping[str, str],
    steps: Mapping[str, SubTask],
    closed: Collection[str],
    *,
    completed: Task | None = None,
    failed: Task | None = None,
) -> list[ev.Event]:
    """Every step has ended: the answer of a single sink is the run's answer, else the planner combines the results.

    `tasks` execute the `steps`; the attempts of the tasks in `closed` ended with these events, `completed` or `failed`
    was the last of the steps.
    """
    done = {
        id_: tasks[id_]
        for id_ in steps
        if _has_completed(run, tasks[id_]) or (completed is not None and tasks[id_] == completed.task_id)
    }
    if not done:
        return fail(run, events, "no step of the plan completed", closed, failed)
    sinks = sinks_of(PlanTask("", "", "", tuple(steps.values())))
    if len(sinks) == 1 and sinks[0] in done:
        return then_end(run, events, set(closed), TaskState.COMPLETED)
    assert run.submission is not None
    assert run.plan is not None
    if not run.plan.rules.has_planner:
        message = f"{', '.join(sinks[:MAX_NAMED])} did not complete, and the run has no planner"
        return fail(run, events, message, closed, failed)
    used = {dependency for id_ in done for dependency in steps[id_].dependencies}
    results = tuple(task_id for id_, task_id in done.items() if id_ not in used)
    created = sum(type(event) is ev.TaskCreated for event in events)
    return [*events, ev.TaskCreated(new_task_id(run, created), run.submission.roles[0], predecessors=results)]


def _has_completed(run: RunState, task_id: str) -> bool:
    return task_id in run.tasks and run.tasks[task_id].state is TaskState.COMPLETED


def fail(
    run: RunState, events: list[ev.Event], message: str, closed: Collection[str], task: Task | None, kind: str = ""
) -> list[ev.Event]:
    """Fails the run; `task` executes a step that fails with the events, `kind` is the failure's kind."""
    failure = plan_failure(run, message, [task.step_id] if task is not None else [], kind)
    return then_end(run, [*events, ending(failure)], set(closed), TaskState.FAILED, failure)


def new_task_id(run: RunState, created: int) -> str:
    """Returns the id of the next task, after so many that the same decision created."""
    assert run.submission is not None
    return f"{run.submission.run_id}.{len(run.tasks) + created + 1}"


def without_statuses(plan: PlanTask) -> PlanTask:
    """Returns the plan as events hold it: the statuses and results of its steps are kept with their tasks."""
    steps = tuple(step.with_result(None).with_status(SubTaskStatus.PENDING) for step in plan.subtasks)
    return PlanTask("", "", plan.goal, steps, plan.context)
