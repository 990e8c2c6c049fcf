"""The timeline of a run whose events have been deleted: as far as the run itself tells it."""

from __future__ import annotations

from archon.api.orchestrator.v1 import run_pb2
from archon.wire import to_seconds
from archon_services.cli.render.run_view import is_reused, state_name, strategy_name
from archon_services.cli.render.waterfall.spans import Spent
from archon_services.cli.render.waterfall.timeline import FINAL, AttemptTimes, TaskTimes, Timeline

DELETED = (
    "the events and call records of this run have been deleted: only the last attempt of each task is known; earlier "
    "attempts, calls, delegations in progress, questions and pauses are missing"
)


def timeline_of(run: run_pb2.Run) -> Timeline:
    """Returns the timeline from GetRun alone."""
    timeline = Timeline()
    timeline.run_id, timeline.strategy = run.run_id, strategy_name(run.strategy)
    timeline.started, timeline.state = to_seconds(run.create_time), state_name(run.state)
    timeline.ended = to_seconds(run.end_time) if run.HasField("end_time") else 0.0
    timeline.detail = run.failure.message
    if run.strategy != run_pb2.STRATEGY_AGENT:
        timeline.edges = [(edge.upstream, edge.downstream) for edge in run.edges]
    for task in run.tasks:
        timeline.tasks[task.task_id] = _task(task, timeline)
    return timeline


def _task(task: run_pb2.Task, timeline: Timeline) -> TaskTimes:
    state = state_name(task.state)
    started = to_seconds(task.start_time) if task.HasField("start_time") else 0.0
    ended = to_seconds(task.end_time) if task.HasField("end_time") else timeline.ended
    created = started if task.parent_task_id and started else timeline.started
    times = TaskTimes(task.task_id, task.role, task.parent_task_id, created, ended, state, task.failure.message)
    times.reused = is_reused(task)
    times.step_id, times.named_predecessors = task.step_id, tuple(task.predecessors)
    if started and not times.reused:
        status = state if state in FINAL else ("canceled" if timeline.ended else state)
        times.attempts.append(
            AttemptTimes(
                task.attempt,
                task.instance_id,
                started,
                ended,
                status,
                task.failure.message,
                Spent.of(task.usage),
            )
        )
    return times
