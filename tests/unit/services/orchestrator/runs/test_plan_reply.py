"""The reply of a planner is read before the engine decides about it."""

from __future__ import annotations

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_mesh.core.run import RunState, apply, decide
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.types import Failure, PlanTarget, Submission, TaskState
from archon_services.orchestrator.runs.plan_reply import with_plan

PLAN = '{"goal": "a trip", "subtasks": [{"id": "a", "description": "go", "role": "guide"}]}'


def run(strategy: str = "plan") -> RunState:
    state = RunState()
    goal = run_pb2.Submitted(goal=[common_pb2.Part(text="a trip")])
    targets = (PlanTarget("guide"),)
    submission = Submission("r", "default", "", "", strategy, ("planner",), (), 60.0, goal, targets=targets)
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
