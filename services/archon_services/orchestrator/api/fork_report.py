"""The report about a fork that is not made: its decision about each task, and why."""

from __future__ import annotations

from typing import Final

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.lineage import RunLineage, Use, UseKind
from archon_mesh.engine import Task
from archon_mesh.engine.types import TaskState
from archon_services.orchestrator.runs.states.fork_plan import ForkPlan

_USES: Final = {
    UseKind.ANSWER: "it used the answer of {}",
    UseKind.DELEGATION: "it delegated to {}",
    UseKind.ARGUMENT: "the arguments of its tool are made of the answer of {}",
    UseKind.CANDIDATE: "it was chosen from answers, that of {} among them",
    UseKind.AWARD: "{} says who executes it",
    UseKind.MESSAGE: "it read a message of {}",
    UseKind.PLAN: "{} planned it",
    UseKind.RESULT: "it planned with the answer of {}",
}


def fork_report(plan: ForkPlan, request: pb.ForkRunRequest) -> pb.ForkRunResponse:
    """Returns the response to a request with `dry_run`."""
    response = pb.ForkRunResponse(plan_revision=plan.plan_revision)
    for task in plan.state.tasks.values():
        source = plan.sources.get(task.task_id, "")
        out = response.tasks.add(task_id=source, role=task.role, step_id=task.step_id)
        if task.parent:
            out.parent_task_id = plan.sources.get(task.parent, "")
        _decide(plan, task, source, request, out)
    return response


def _decide(plan: ForkPlan, task: Task, source: str, request: pb.ForkRunRequest, out: pb.ForkedTask) -> None:
    changes = plan.changes
    if task.state is TaskState.COMPLETED:
        if source in changes.answers:
            seq = plan.lineage.tasks[source].result_seq
            out.decision = pb.FORK_DECISION_EDITED
            out.reason = f"the given answer stands in place of event {seq}" if seq else "it had no answer"
        elif task.attempt == 0 and task.winner and not source:
            out.decision, out.reason = pb.FORK_DECISION_REUSED, "its rule decides as before"
        else:
            out.decision, out.reason = pb.FORK_DECISION_REUSED, "nothing that it used changes"
        return
    if task.state.final:
        out.decision = pb.FORK_DECISION_SKIPPED
        out.reason = task.failure.message if task.failure is not None else "the run has its answer without it"
        return
    out.decision = pb.FORK_DECISION_EXECUTED
    out.reason = _why(plan, source, request, out)


def _why(plan: ForkPlan, source: str, request: pb.ForkRunRequest, out: pb.ForkedTask) -> str:
    changes = plan.changes
    if source in changes.rerun:
        return "you named it"
    if source in changes.inputs:
        return "it receives another input"
    if (use := changes.affected.get(source)) is not None:
        return _because(plan.lineage, use, out)
    if source in changes.affected:
        return "it was delegated under a key of its own by a task that is executed again"
    known = plan.lineage.tasks.get(source)
    if request.goal and (known is None or known.completed):
        return "the goal is another one"
    if known is None:
        return "the plan has it, and it had not begun"
    if known.completed:
        return "its plan is made anew"
    up_to = f" up to event {request.after_seq:,}" if request.after_seq else ""
    return f"it had not completed{up_to}: {known.state}"


def _because(lineage: RunLineage, use: Use, out: pb.ForkedTask) -> str:
    other = lineage.tasks[use.task_id]
    if use.seq:
        out.because.role, out.because.run_id, out.because.seq = other.role, lineage.run_id, use.seq
    return _USES[use.kind].format(other.label) + (f" (event {use.seq:,})" if use.seq else "")
