"""Decides about an edit of the plan: it replaces steps that have not begun, and never touches those that have."""

from __future__ import annotations

from dataclasses import replace

from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.plan import plan_changed
from archon_mesh.engine.decide.plan_reply import MAX_FAULTS, AcceptedPlan, plan_faults, plan_targets
from archon_mesh.engine.decide.step_roles import assigned
from archon_mesh.engine.plan import SubTask, SubTaskStatus
from archon_mesh.engine.plan import Task as Plan
from archon_mesh.engine.plan_progress import status_of
from archon_mesh.engine.plan_state import is_same_step, keeps_task
from archon_mesh.engine.state import RunState
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import Failure, TaskState


def edit_plan(run: RunState, edit: inp.EditPlan, now: float) -> list[ev.Event]:
    """The edited plan; no event if the edit is refused."""
    if edit_refusal(run, edit) is not None:
        return []
    plan = _with_statuses(run, edit.plan)
    if not _is_checked(run):
        plan = assigned(plan, plan_targets(run))
    return plan_changed(run, [], AcceptedPlan(plan), edit=edit)


def _is_checked(run: RunState) -> bool:
    return run.plan is not None and run.plan.rules.are_checked


def edit_refusal(run: RunState, edit: inp.EditPlan) -> Failure | None:
    """Why an edit is refused: ABORTED if the plan has changed, FAILED_PRECONDITION if the run has no plan to edit or
    the edit touches steps that have begun, INVALID_ARGUMENT if the steps are no plan. None if it is accepted."""
    state = run.plan
    if state is None or not state.steps:
        return Failure("FAILED_PRECONDITION", "FAILED_PRECONDITION", "the run has no plan")
    if run.ended or run.ending is not None or state.synthesis:
        return Failure("FAILED_PRECONDITION", "FAILED_PRECONDITION", "all steps of the plan have ended")
    if edit.expected_seq != state.seq:
        message = f"event {state.seq} changed the plan last, not {edit.expected_seq}: read it again"
        return Failure("ABORTED", "ABORTED", message, (("change_seq", str(state.seq)),))
    plan = _with_statuses(run, edit.plan)
    if touched := _touched(run, plan):
        message = f"the edit changes steps that have begun: {', '.join(touched[:20])}"
        return Failure("FAILED_PRECONDITION", "FAILED_PRECONDITION", message)
    found = () if _is_checked(run) else plan_faults(run, plan)
    if faults := (*found, *_unreachable(run, plan)):
        violations = tuple((step or "plan_json", description) for step, description in faults[:MAX_FAULTS])
        return Failure("INVALID_ARGUMENT", "INVALID_ARGUMENT", faults[0][1], violations=violations)
    return None


def _with_statuses(run: RunState, plan: Plan) -> Plan:
    """The plan with the statuses and the roles of the steps that have begun; the others are to begin."""
    state = run.plan
    assert state is not None

    def current(step: SubTask) -> SubTask:
        task_id = state.tasks.get(step.id)
        if task_id is None or not keeps_task(run.tasks[task_id], edited=True):
            return step.with_status(SubTaskStatus.PENDING)
        return replace(step, status=status_of(run, task_id), role=step.role or state.steps[step.id].role)

    return replace(plan, subtasks=tuple(map(current, plan.subtasks)), context={**state.context, **plan.context})


def _touched(run: RunState, plan: Plan) -> list[str]:
    """The steps that have begun and that the edited plan does not have as they are."""
    state = run.plan
    assert state is not None
    edited = {step.id: step for step in plan.subtasks}
    return [
        id_
        for id_, task_id in state.tasks.items()
        if keeps_task(run.tasks[task_id], edited=True)
        and (id_ not in edited or _is_changed(state.steps[id_], edited[id_]))
    ]


def _is_changed(step: SubTask, edited: SubTask) -> bool:
    return not is_same_step(step, edited) or {*step.dependencies} != {*edited.dependencies}


def _unreachable(run: RunState, plan: Plan) -> list[tuple[str, str]]:
    """New steps that need the result of a step that failed or was stopped, which an edit does not start again."""
    state = run.plan
    assert state is not None
    tasks = {id_: run.tasks[task_id] for id_, task_id in state.tasks.items()}
    failed = {
        id_
        for id_, task in tasks.items()
        if task.unneeded or (task.attempt and task.ended and task.state is not TaskState.COMPLETED)
    }
    return [
        (step.id, f"subtask {step.id!r} depends on {(id_ := min(failed & {*step.dependencies}))!r}, {_why(tasks[id_])}")
        for step in plan.subtasks
        if not step.has_ended and not step.partial_input and failed & {*step.dependencies}
        if not step.has_enough({*step.dependencies} - failed)
    ]


def _why(task: Task) -> str:
    return "which was stopped" if task.unneeded else "which failed"
