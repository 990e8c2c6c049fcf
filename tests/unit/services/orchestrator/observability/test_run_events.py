"""The durable events of runs and the commits of the journal become counts."""

from __future__ import annotations

from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from archon.errors import Unavailable
from archon.telemetry import metrics
from archon.telemetry.metrics import Recorder
from archon_mesh.engine import RunState
from archon_mesh.engine import events as ev
from archon_mesh.engine.task import Task
from archon_mesh.engine.types import Failure, TaskState
from archon_services.orchestrator.journal import Outcome, SameRequest
from archon_services.orchestrator.observability.commits import CommitMeasurement
from archon_services.orchestrator.observability.run_events import RunEventCounter
from tests.fixtures.metrics import points, reader, recorder, values

__all__ = ["reader", "recorder"]

LOST = Failure("UNAVAILABLE", "INSTANCE_LOST", "gone")


def run_of(*roles: str) -> RunState:
    """Returns the state of a run that took 2.5 s, whose tasks have the ids of their roles."""
    run = RunState(create_time=10.0, end_time=12.5)
    for role in roles:
        run.tasks[role] = Task(role, role)
    return run


def test_each_reason_of_another_attempt_is_counted(recorder: Recorder, reader: InMemoryMetricReader) -> None:
    counter, run = RunEventCounter(recorder), run_of("designer", "writer")
    counter.stored([ev.Dispatched("designer", 1, 1, "designer", "d-1", ())], run)
    counter.stored([ev.Lost("designer", 1, "d-1", LOST), ev.Lost("writer", 1, "w-1", LOST)], run)
    counter.stored([ev.Rejected("designer", 2, "d-1", LOST, 0.0)], run)
    counter.stored([ev.Retried("designer", 3, "designer", LOST, 0.0)], run)
    assert values(reader, metrics.ATTEMPTS_DISPATCHED) == {("designer",): 1}
    assert values(reader, metrics.ATTEMPTS_REPEATED) == {
        ("designer", "lost"): 1,
        ("writer", "lost"): 1,
        ("designer", "rejected"): 1,
        ("designer", "retried"): 1,
    }


def test_a_run_is_counted_when_it_ends_and_timed(recorder: Recorder, reader: InMemoryMetricReader) -> None:
    counter, run = RunEventCounter(recorder), run_of("designer")
    assert values(reader, metrics.RUNS_ENDED) == {("completed",): 0, ("failed",): 0, ("canceled",): 0}
    ended = ev.TaskEnded("designer", "designer", 1, TaskState.FAILED, LOST)
    counter.stored([ended, ev.RunEnded(TaskState.FAILED, LOST, ())], run)
    counter.quarantined()
    assert values(reader, metrics.RUNS_ENDED)["failed",] == 2
    assert values(reader, metrics.TASKS_ENDED) == {("designer", "failed"): 1}
    [duration] = points(reader, metrics.RUN_DURATION)
    assert (duration.count, duration.sum) == (1, 2.5)
    assert dict(duration.attributes) == {"archon.state": "failed"}


def test_steps_of_plans_are_counted_by_their_state(recorder: Recorder, reader: InMemoryMetricReader) -> None:
    counter, run = RunEventCounter(recorder), run_of("planner")
    for step in ("book", "pay"):
        run.tasks[step] = Task(step, "clerk", step_id=step)
    counter.stored([ev.TaskCreated(step, "clerk", step_id=step) for step in ("book", "pay")], run)
    counter.stored([ev.TaskCreated("planner", "planner"), ev.Dispatched("planner", 1, 1, "planner", "p-1", ())], run)
    counter.stored([ev.Dispatched("book", attempt, 1, "clerk", "c-1", ()) for attempt in (1, 2)], run)
    counter.stored([ev.TaskEnded("book", "clerk", 2, TaskState.FAILED, LOST)], run)
    assert values(reader, metrics.PLAN_STEPS) == {
        ("created",): 2,
        ("started",): 1,
        ("completed",): 0,
        ("failed",): 1,
        ("canceled",): 0,
    }


def test_an_event_without_a_metric_counts_nothing(recorder: Recorder, reader: InMemoryMetricReader) -> None:
    counter = RunEventCounter(recorder)
    before = {metric: values(reader, metric) for metric in metrics.METRICS if metric.kind is metrics.Kind.COUNTER}
    counter.stored([ev.Published("designer", "designer", 3, 1), ev.Paused("operator")], run_of("designer"))
    assert {metric: values(reader, metric) for metric in before} == before


def test_the_steps_of_a_commit_are_counted_by_what_became_of_them(
    recorder: Recorder, reader: InMemoryMetricReader
) -> None:
    commits = CommitMeasurement(recorder)
    commits.done(0.002, [Outcome.DONE, Outcome.DONE, Outcome.STALE, SameRequest("r"), Unavailable("down")])
    commits.done(0.002, [Outcome.DONE])
    commits.failed(0.2, 3)
    assert values(reader, metrics.JOURNAL_STEPS) == {("stored",): 3, ("refused",): 2, ("failed",): 4}
    [duration] = points(reader, metrics.COMMIT_DURATION)
    assert duration.count == 3
