"""How far the plan of a run has come: the statuses of its steps, the failures, and whether the run has its answer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from archon.failure_kinds import RetryAdvice
from archon_mesh.engine import events as ev
from archon_mesh.engine.plan import ReplanCounters, SubTask, SubTaskStatus
from archon_mesh.engine.plan.expand import awaits_expansion, is_due
from archon_mesh.engine.plan_state import sinks_of
from archon_mesh.engine.state import RunState
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import PLAN_FAILED, Failure, TaskState

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


def status_of(run: RunState, task_id: str) -> SubTaskStatus:
    """Returns the status of the step that a task executes."""
    task = run.tasks[task_id]
    if task.unneeded:
        return SubTaskStatus.SKIPPED
    if (ended := _STATUS.get(task.state)) is not None:
        return ended
    return SubTaskStatus.EXECUTING if task.attempt else SubTaskStatus.PENDING


def steps_of(run: RunState) -> list[SubTask]:
    """Returns the steps of the plan in force with their statuses, in order; without results."""
    plan = run.plan
    assert plan is not None
    return [step.with_status(status_of(run, plan.tasks[step.id])) for step in plan.steps.values()]


def failed_counters(run: RunState, task: Task, failure: Failure | None) -> ReplanCounters:
    """Returns the counters after the step of a task has failed for good. A failure that leaves every step that waits
    for it enough other results is no reason for a replan, unless the step is critical; and a bid that does not come
    never is one."""
    plan = run.plan
    assert plan is not None
    step = plan.steps[task.step_id]
    if not step.critical and (step.bid_for or _is_spare(run, task)):
        return plan.counters
    is_permanent = failure is not None and failure.retry == RetryAdvice.NEVER
    counters = plan.counters.with_failed(step)
    for _ in range(plan.rules.permanent_failures if is_permanent else 1):
        counters = counters.with_failed_attempt(step.id)
    return counters


def _is_spare(run: RunState, task: Task) -> bool:
    """Whether all steps that wait for the task can still have their quorum without it, or a result to decide about."""
    plan = run.plan
    assert plan is not None
    waiting = [each for id_ in task.successors if plan.in_force(each := run.tasks[id_]) and not each.ended]
    return bool(waiting) and all(_can_do_without(run, each, task) for each in waiting)


def _can_do_without(run: RunState, waiting: Task, task: Task) -> bool:
    plan = run.plan
    assert plan is not None
    step = plan.steps[waiting.step_id]
    if step.quorum:
        return can_have_enough(run, waiting, {task.task_id})
    others = (run.tasks[id_] for id_ in waiting.predecessors if id_ != task.task_id)
    return bool(step.decision) and step.partial_input and any(_may_complete(run, other) for other in others)


def can_have_enough(run: RunState, task: Task, gone: Collection[str]) -> bool:
    """Returns whether a step can still have the results that it needs. Tasks that are `gone` end without one."""
    plan = run.plan
    assert plan is not None
    possible = sum(id_ not in gone and _may_complete(run, run.tasks[id_]) for id_ in task.predecessors)
    return possible >= plan.steps[task.step_id].needed


def _may_complete(run: RunState, task: Task) -> bool:
    if task.ended:
        return task.state is TaskState.COMPLETED or waits_for_expansion(run, task)
    return not task.stopping


def next_confidence(run: RunState) -> float:
    """Returns the lowest confidence in a step of the plan in force that may start now; 1 if none may."""
    plan = run.plan
    assert plan is not None
    tasks = ((plan.steps[id_], run.tasks[task_id]) for id_, task_id in plan.tasks.items())
    ready = (step.confidence for step, task in tasks if not (step.expand or task.ended or task.attempt or task.missing))
    return min(ready, default=1.0)


def due_expansions(run: RunState, ended: Mapping[str, TaskState] | None = None) -> tuple[str, ...]:
    """Returns the steps of the plan in force in whose place the planner has to plan now. `ended` has the states of the
    steps that end with the events being decided."""
    plan = run.plan
    assert plan is not None
    if not plan.places:
        return ()
    states = {id_: run.tasks[task_id].state for id_, task_id in plan.tasks.items()} | dict(ended or {})
    return due_places(plan.steps, states, plan.handled)


def due_places(
    steps: Mapping[str, SubTask], states: Mapping[str, TaskState], handled: Collection[str]
) -> tuple[str, ...]:
    """Returns the ids of the steps in whose place the planner has to plan now. `states` come from the steps' tasks;
    steps without a task wait."""

    def with_state(step: SubTask) -> SubTask:
        status = _STATUS.get(states.get(step.id, TaskState.SUBMITTED), SubTaskStatus.PENDING)
        return step.with_status(status)

    due = []
    for step in steps.values():
        if step.expand or step.expand_on_failure:
            upstream = {id_: with_state(steps[id_]) for id_ in step.dependencies if id_ in steps}
            if is_due(with_state(step), upstream, handled):
                due.append(step.id)
    return tuple(due)


def waits_for_expansion(run: RunState, task: Task) -> bool:
    """True if the step of this task failed and the planner has yet to plan its replacement."""
    plan = run.plan
    if plan is None or not plan.places or not plan.in_force(task):
        return False
    return awaits_expansion(plan.steps[task.step_id].with_status(status_of(run, task.task_id)), plan.handled)


def failed_steps(run: RunState, further: Iterable[str] = ()) -> list[str]:
    """Returns the ids of the steps that failed, and of the `further` ones, in the order of the plan."""
    plan, also = run.plan, set(further)
    assert plan is not None
    failed = (TaskState.FAILED, TaskState.REJECTED)
    return [id_ for id_, task_id in plan.tasks.items() if id_ in also or run.tasks[task_id].state in failed]


def plan_failure(run: RunState, message: str, further: Iterable[str] = (), kind: str = "") -> Failure:
    """Returns the failure of a run whose plan cannot be completed; `further` steps failed too."""
    plan = run.plan
    assert plan is not None
    names = ", ".join(failed_steps(run, further)[:MAX_NAMED])
    metadata = (
        ("failed_steps", names[:MAX_NAMES]),
        ("replans", str(plan.counters.replans)),
        ("suggestion", "submit a simpler goal, or one goal for each part of it"),
    )
    return Failure("FAILED_PRECONDITION", PLAN_FAILED, message, metadata, kind=kind)


def is_over(run: RunState) -> bool:
    """True if the run has its answer: from the synthesis, or from the plan's only sink."""
    plan = run.plan
    assert plan is not None
    if plan.synthesis:
        return run.tasks[plan.synthesis].state is TaskState.COMPLETED
    return not (plan.planner or plan.open) and has_answer(run)


def has_answer(run: RunState) -> bool:
    """True if the only sink of the plan has completed. With a quorum, other steps may still be open."""
    plan = run.plan
    if plan is None or len(plan.sinks) != 1:
        return False
    task_id = plan.tasks.get(plan.sinks[0])  # None while its task is not created yet
    return task_id is not None and run.tasks[task_id].state is TaskState.COMPLETED


def answer_task(run: RunState, decided: Sequence[ev.Event]) -> Task:
    """Returns the task with the answer of a run that completes with the decided events."""
    plan = run.plan
    assert plan is not None
    sinks = next((sinks_of(event.plan) for event in decided if isinstance(event, ev.Planned)), plan.sinks)
    return run.tasks[plan.synthesis or plan.tasks[sinks[0]]]
