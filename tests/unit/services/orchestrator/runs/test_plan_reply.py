"""The reply of a planner is read before the engine decides about it."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_mesh.engine import RunState, apply
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.engine import decide
from archon_mesh.engine.plan import SubTask
from archon_mesh.engine.plan import Task as Plan
from archon_mesh.engine.types import Failure, PlanTarget, Submission, TaskState
from archon_services.orchestrator.runs.turn.plan_reply import with_plan

PLAN = '{"goal": "a trip", "subtasks": [{"id": "a", "description": "go", "role": "guide"}]}'


def run(strategy: str = "plan", *, check_alignment: bool = False) -> RunState:
    state = RunState()
    goal = run_pb2.Submitted(goal=[common_pb2.Part(text="a trip")])
    targets = (PlanTarget("guide"),)
    submission = Submission("r", "default", "", "", strategy, ("planner",), (), 60.0, goal, targets=targets)
    submission = replace(submission, check_alignment=check_alignment)
    for given in (inp.Submit(submission, "o", 1), inp.SlotFound("r.1", "i")):
        for event in decide(state, given, 1_000.0):
            apply(state, event, 1_000.0)
    return state


def result(text: str, state: TaskState = TaskState.COMPLETED) -> inp.ResultIn:
    payload = agent_pb2.TaskResult(output=[common_pb2.Part(text=text)])
    return inp.ResultIn("r.1", 1, state, payload, records=2)


def test_the_text_of_a_planner_becomes_a_plan() -> None:
    read = with_plan(run(), result(f"Here it is:\n```json\n{PLAN}\n```"))
    assert isinstance(read, inp.PlanIn)
    assert read.plan is not None
    assert (read.plan.goal, read.plan.original_query) == ("a trip", "a trip")
    assert [(step.id, step.role) for step in read.plan.subtasks] == [("a", "guide")]
    assert (read.records, read.payload) == (2, result(f"Here it is:\n```json\n{PLAN}\n```").payload)


def test_a_text_that_is_no_plan_becomes_faults() -> None:
    read = with_plan(run(), result("I cannot."))
    assert isinstance(read, inp.PlanIn)
    assert read.plan is None
    assert len(read.faults) == 1


def test_any_other_input_stays_as_it_is() -> None:
    for state, given in (
        (run("agent"), result(PLAN)),
        (run(), result(PLAN, TaskState.FAILED)),
        (run(), inp.LostIn("r.1", 1, Failure("UNAVAILABLE", "INSTANCE_LOST", "gone"))),
    ):
        assert with_plan(state, given) is given


def checked_run() -> RunState:
    """A run whose planner is asked, after its first step, whether the plan still leads to the goal."""
    state = run(check_alignment=True)
    steps = tuple(
        SubTask(id_, f"do {id_}", role="guide", dependencies=before)
        for id_, before in (("a", ()), ("b", ("a",)), ("c", ("b",)))
    )
    inputs = (
        inp.PlanIn("r.1", 1, TaskState.COMPLETED, None, plan=Plan("", "", "a trip", steps)),
        inp.SlotFound("r.2", "i"),
        inp.ResultIn("r.2", 1, TaskState.COMPLETED, None),
        inp.SlotFound("r.5", "i"),
    )
    for given in inputs:
        for event in decide(state, given, 1_000.0):
            apply(state, event, 1_000.0)
    assert state.plan is not None
    assert state.plan.alignment == "r.5"
    return state


@pytest.mark.parametrize(
    ("text", "has_plan", "reason"),
    [
        ('{"aligned": true}', False, ""),
        (PLAN[:-1] + ', "aligned": false, "reason": "it strays"}', True, "it strays"),
        (PLAN, True, ""),
    ],
)
def test_the_reply_to_a_check_becomes_a_verdict(text: str, has_plan: bool, reason: str) -> None:
    read = with_plan(checked_run(), replace(result(text), task_id="r.5"))
    assert isinstance(read, inp.PlanIn)
    assert (read.plan is not None, read.reason, read.faults) == (has_plan, reason, ())


@pytest.mark.parametrize("text", ["I cannot tell.", '{"question": "Which way?"}'])
def test_a_reply_that_is_no_verdict_is_logged(text: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        read = with_plan(checked_run(), replace(result(text), task_id="r.5"))
    assert isinstance(read, inp.PlanIn)
    assert (read.plan, len(read.faults)) == (None, 1)
    assert [record.run_id for record in caplog.records] == ["r"]  # type: ignore[attr-defined]
