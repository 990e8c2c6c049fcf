"""The view of a run whose events have been deleted: as far as the run itself tells it."""

from __future__ import annotations

from archon.api.orchestrator.v1 import run_pb2
from archon.run_view import Attempt, Outcome, RunView, TaskState, TaskView, Usage, convert
from archon.wire import to_seconds
from archon_services.reports.state_names import is_reused

DELETED = (
    "the details of this run were removed by retention: only the last attempt of each task is known; earlier "
    "attempts, calls, delegations in progress, questions and pauses are missing"
)


def view_of(run: run_pb2.Run) -> RunView:
    """Returns the view from GetRun alone."""
    view = RunView(run.run_id, convert.strategy_name(run.strategy), TaskState.from_proto(run.state))
    view.started, view.failure = to_seconds(run.create_time), convert.failure(run.failure)
    view.ended = to_seconds(run.end_time) if run.HasField("end_time") else 0.0
    if run.strategy != run_pb2.STRATEGY_AGENT:
        view.edges = [(edge.upstream, edge.downstream) for edge in run.edges]
    for task in run.tasks:
        view.tasks[task.task_id] = _task(task, view)
    return view


def _task(task: run_pb2.Task, view: RunView) -> TaskView:
    started = to_seconds(task.start_time) if task.HasField("start_time") else 0.0
    created = started if task.parent_task_id and started else view.started
    out = TaskView(task.task_id, task.role, created, task.parent_task_id, task.step_id)
    out.predecessors, out.state = tuple(task.predecessors), TaskState.from_proto(task.state)
    out.reused = is_reused(task)
    out.ended = to_seconds(task.end_time) if task.HasField("end_time") else view.ended
    if started and not out.reused:
        outcome = Outcome(out.state) if out.final else Outcome.CANCELED
        attempt = Attempt(task.attempt, task.instance_id, started, out.ended, outcome, convert.failure(task.failure))
        attempt.usage = Usage.from_proto(task.usage)
        out.attempts.append(attempt)
    return out
