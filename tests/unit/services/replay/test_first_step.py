"""The first step of a recorded run is made again for another run: its ids are the new run's, and nothing else changes."""

from __future__ import annotations

from archon.api.orchestrator.v1 import run_pb2
from archon.history import RunHistory
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.types import Submission
from archon_services.orchestrator.convert import event_time, events_of
from archon_services.replay.first_step import begun_now, first_step
from archon_services.replay.recorded_run import Decision, Recording

RUN, OTHER = "r1", "another"
SUBMISSION = Submission(RUN, "acme", "", "", "pipeline", (), (), 60.0, ())


def recording() -> Recording:
    """A fork with an edge between two tasks, whose goal begins as the id of a task does."""
    submitted = run_pb2.RunEvent(run_id=RUN, seq=1)
    submitted.time.FromSeconds(1_000)
    submitted.submitted.goal.add(text="r1.1 is a text")
    submitted.submitted.parent_run_id, submitted.submitted.tenant = "r12", "acme"
    submitted.submitted.rules.add().terms.approvers.append("alice")
    task = run_pb2.RunEvent(run_id=RUN, seq=2)
    task.time.FromSeconds(1_000)
    task.task.task_id, task.task.run_id = "r1.2", RUN
    task.task_state.predecessors.append("r1.1")
    decision = Decision(inp.Submit(SUBMISSION, "o", 1), (1, 2), 1_000.0)
    return Recording(RunHistory(RUN, 2, False, ()), [submitted, task], [decision])


def test_ids_are_those_of_the_new_run() -> None:
    step = first_step(recording(), OTHER)
    submitted, task = events_of(step.data, OTHER)
    assert (submitted.run_id, task.task.task_id, task.task.run_id) == (OTHER, "another.2", OTHER)
    assert list(task.task_state.predecessors) == ["another.1"]
    assert submitted.submitted.parent_run_id == "r12", "the id of another run"
    assert submitted.submitted.goal[0].text == "r1.1 is a text"
    assert event_time(submitted) == 1_000.0 and step.last_seq == 2
    assert step.new is not None and step.new.run_id == OTHER and submitted.submitted.tenant == ""


def test_a_run_that_begins_now_may_be_answered_by_anyone() -> None:
    recorded = events_of(first_step(recording(), OTHER).data, OTHER)[0]
    now = events_of(begun_now(recording(), OTHER, 2_000.0).data, OTHER)[0]
    assert list(recorded.submitted.rules[0].terms.approvers) == ["alice"]
    assert not now.submitted.rules[0].terms.approvers and event_time(now) == 2_000.0
