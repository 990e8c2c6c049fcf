"""The end of tasks and runs by example: the attempts that are stopped, the tasks that end at once, the last event."""

from __future__ import annotations

from archon_mesh.engine import apply
from archon_mesh.engine import events as ev
from archon_mesh.engine.decide.termination import orphans, stop, then_end
from archon_mesh.engine.types import Failure, TaskState
from tests.unit.mesh.engine.lead_run import Lead

WHY = Failure("CANCELLED", "CANCELLED", "enough")
CANCEL = ev.CancelRequested("me", "enough")


def family() -> Lead:
    """Returns a run where r.1 (live) has delegated to r.2 (live), r.3 (not dispatched) and r.4 (completed), and r.2 to
    r.5 (live)."""
    run = Lead()
    run.place(1)
    for role in ("a", "b", "c"):
        run.delegate(role=role)
    run.place(2, 4)
    run.result(4)
    run.delegate(2, "d")
    run.place(5)
    return run


def kinds_and_tasks(events: list[ev.Event]) -> list[tuple[str, str]]:
    """Returns the kind and the task of each event, `run` for events of the run."""
    return [(type(event).__name__, getattr(event, "task_id", "run")) for event in events]


def test_a_stop_orders_live_attempts_and_ends_other_tasks() -> None:
    run = family()
    lead = run.state.tasks["r.1"]
    assert kinds_and_tasks(stop(run.state, lead, WHY)) == [
        ("TaskStopping", "r.1"),
        ("TaskStopping", "r.2"),
        ("TaskEnded", "r.3"),
        ("TaskStopping", "r.5"),
    ], "r.4 has completed"
    stopping, *_ = stop(run.state, run.state.tasks["r.2"], WHY)
    assert stopping == ev.TaskStopping("r.2", "a", 1, WHY)
    (ended,) = stop(run.state, run.state.tasks["r.3"], WHY)
    assert ended == ev.TaskEnded("r.3", "b", 0, TaskState.CANCELED, WHY)


def test_nothing_is_stopped_twice() -> None:
    run = family()
    once: set[str] = set()
    assert [name for _, name in kinds_and_tasks(stop(run.state, run.state.tasks["r.2"], WHY, once))] == ["r.2", "r.5"]
    assert once == {"r.2", "r.5"}
    assert stop(run.state, run.state.tasks["r.5"], WHY, once) == []
    for event in stop(run.state, run.state.tasks["r.2"], WHY):
        apply(run.state, event, run.now)
    assert stop(run.state, run.state.tasks["r.2"], WHY) == [], "the tasks are stopping already"


def test_orphans_are_all_descendants_of_a_task() -> None:
    run = family()
    events = orphans(run.state, run.state.tasks["r.1"])
    assert [name for _, name in kinds_and_tasks(events)] == ["r.2", "r.5", "r.3"]
    failures = {event.failure for event in events if isinstance(event, (ev.TaskStopping, ev.TaskEnded))}
    assert {failure and failure.message for failure in failures} == {"the delegating task of lead has ended"}, (
        "the failure names the reason"
    )
    assert orphans(run.state, run.state.tasks["r.5"]) == []


def test_a_child_that_two_delegations_share_is_one_orphan() -> None:
    run = Lead()
    run.place(1)
    run.delegate(key="same"), run.delegate(key="same")
    assert kinds_and_tasks(orphans(run.state, run.state.tasks["r.1"])) == [("TaskEnded", "r.2")]


def test_the_end_waits_for_every_attempt_that_is_under_way() -> None:
    run = family()
    for closed in (set(), {"r.1"}, {"r.1", "r.2"}):
        assert then_end(run.state, [CANCEL], closed, TaskState.CANCELED, WHY) == [CANCEL]
    events = then_end(run.state, [CANCEL], {"r.1", "r.2", "r.5"}, TaskState.CANCELED, WHY)
    assert kinds_and_tasks(events) == [
        ("CancelRequested", "run"),
        ("TaskEnded", "r.1"),
        ("TaskEnded", "r.2"),
        ("TaskEnded", "r.3"),
        ("TaskEnded", "r.5"),
        ("RunEnded", "run"),
    ], "each task has one end, that of r.4 is its answer"
    assert events[-1] == ev.RunEnded(TaskState.CANCELED, WHY, ())


def test_a_task_that_just_ended_is_not_cancelled() -> None:
    run = Lead(("a", "b"))
    run.place(1)
    ends: tuple[ev.Event, ...] = (
        ev.ResultReceived("r.1", 1, "a", TaskState.FAILED, None, WHY),
        ev.TaskEnded("r.1", "a", 1, TaskState.FAILED, WHY),
        ev.Discarded("r.1", 1, "CANCELLED"),
    )
    for end in ends:
        events = then_end(run.state, [end], {"r.1"}, TaskState.FAILED, WHY)
        assert kinds_and_tasks(events)[1:] == [("TaskEnded", "r.2"), ("RunEnded", "run")]


def test_the_first_cause_of_an_end_wins() -> None:
    run = Lead()
    run.place(1)
    apply(run.state, CANCEL, run.now)
    late = ev.Lost("r.1", 1, "i", WHY)
    events = then_end(run.state, [late], {"r.1"}, TaskState.COMPLETED)
    ended = events[-1]
    assert isinstance(ended, ev.RunEnded)
    assert (ended.state, ended.failure and ended.failure.message) == (TaskState.CANCELED, "enough")
    assert ended.answer_seqs == ()


def test_a_runs_answers_include_the_result_being_decided() -> None:
    run = Lead(("a", "b", "c"), edges=(("a", "b"), ("a", "c")))
    run.place(1)
    run.result(1)
    run.place(2, 3)
    run.result(3)
    first = run.state.tasks["r.3"].result_seq
    last = ev.ResultReceived("r.2", 1, "b", TaskState.COMPLETED, None)
    recorded = ev.Recorded("r.2", 1, 1)
    ended = then_end(run.state, [recorded, last], {"r.2"}, TaskState.COMPLETED)[-1]
    assert isinstance(ended, ev.RunEnded)
    assert ended.answer_seqs == (run.state.last_seq + 2, first), "in the roles' order, not that of the answers"
