"""The input of steps and planners: descriptions, filled arguments, requests, and their bounds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import capability_pb2, common_pb2, plan_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.registry import Capability, Profile, Registration, Tool
from archon.wire import text_of
from archon_mesh.engine import RunState, apply
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.engine import decide
from archon_mesh.engine.plan import SubTask
from archon_mesh.engine.plan import Task as Plan
from archon_mesh.engine.types import Submission, TaskState
from archon_services.orchestrator.convert import plan as module
from archon_services.orchestrator.convert.plan import plan_target, target_from_proto, within_size, write_plan
from archon_services.orchestrator.dispatch.assign_task import assign_task
from archon_services.orchestrator.dispatch.step import input_failure
from archon_services.orchestrator.track_records.records import RoleAverage

T0 = 1_000.0
BOOKER = Registration(
    "booker",
    instance_id="booker-1",
    description="books",
    capabilities=[Capability("booking", description="books things")],
    tools=[Tool("book", description="books a thing", input_schema_json='{"type":"object"}')],
)


def step(id: str, *dependencies: str, **fields: Any) -> SubTask:
    return SubTask(id, f"do {id}", dependencies=dependencies, role="booker", **fields)


class Planned:
    """A run with the strategy `plan`, in a session."""

    def __init__(self, *steps: SubTask) -> None:
        self.state = RunState()
        goal = run_pb2.Submitted(plan_targets=[plan_target(BOOKER)])
        goal.goal.add(text="a trip")
        targets = tuple(target_from_proto(target) for target in goal.plan_targets)
        self.feed(
            inp.Submit(
                Submission("r", "default", "q", "s", "plan", ("planner",), (), 60.0, goal, targets=targets), "o", 1
            )
        )
        self.feed(inp.SlotFound("r.1", "i"))
        if steps:
            plan = Plan("", "a trip", "a trip", steps, {"from": "Rome"})
            self.feed(inp.PlanIn("r.1", 1, TaskState.COMPLETED, agent_pb2.TaskResult(), plan=plan))

    def feed(self, given: inp.Input) -> None:
        for event in decide(self.state, given, T0):
            apply(self.state, event, T0)

    def answer(self, step_id: str, text: str, state: TaskState = TaskState.COMPLETED) -> None:
        assert self.state.plan is not None
        task_id = self.state.plan.tasks[step_id]
        self.feed(inp.SlotFound(task_id, "i"))
        result = agent_pb2.TaskResult(output=[common_pb2.Part(text=text)])
        self.feed(inp.ResultIn(task_id, 1, state, result))

    def assigned(self, step_id: str = "") -> agent_pb2.AssignTask:
        assert self.state.plan is not None
        task_id = self.state.plan.tasks[step_id] if step_id else self.state.plan.planner
        self.feed(inp.SlotFound(task_id, "i"))
        return assign_task(self.state, self.state.tasks[task_id], T0)

    def failure(self, step_id: str) -> Any:
        assert self.state.plan is not None
        return input_failure(self.state, self.state.tasks[self.state.plan.tasks[step_id]])


def test_a_step_gets_its_description_and_its_dependencies_results() -> None:
    run = Planned(step("a"), step("b"), step("c", "a", "b", expected_output="a name"))
    run.answer("a", "one")
    run.answer("b", "two")
    assigned = run.assigned("c")
    assert (text_of(assigned.input), assigned.expected_output, assigned.step_id) == ("do c", "a name", "c")
    assert [(item.step_id, text_of(item.parts)) for item in assigned.context] == [("a", "one"), ("b", "two")]
    assert not assigned.allowed_tools
    assert not assigned.conversation_id, "steps of one role share no conversation"
    assert not assigned.HasField("plan_request")


def test_a_step_with_a_tool_may_use_no_other_and_gets_its_arguments() -> None:
    args = {"hotel": "{a.name}", "text": "from {from} to {a.city.zip}", "all": "{a}", "literal": "{{x}}"}
    run = Planned(step("a"), step("b", "a", tool_name="book", tool_args=args))
    run.answer("a", '{"name": "Adler", "city": "Bern"}')
    assigned = run.assigned("b")
    assert list(assigned.allowed_tools) == ["book"]
    whole = '{\\"name\\": \\"Adler\\", \\"city\\": \\"Bern\\"}'
    assert assigned.tool_args_json == (
        f'{{"hotel":"Adler","text":"from Rome to {whole}","all":"{whole}","literal":"{{x}}"}}'
    ), "a path that the result does not have is the whole result"
    assert assigned.tool_args_json in assigned.input[1].text


def test_step_gets_the_schema_of_its_result() -> None:
    run = Planned(step("a", output_schema={"type": "array"}), step("b"))
    assert run.assigned("a").output_schema_json == '{"type":"array"}'
    assert run.assigned("b").output_schema_json == ""


def test_arguments_of_a_failed_dependency_fail_the_step() -> None:
    run = Planned(step("a"), step("b", "a", tool_name="book", tool_args={"x": "{a}"}, partial_input=True), step("c"))
    run.answer("a", "", TaskState.REJECTED)
    failure = run.failure("b")
    assert failure is not None
    assert (failure.reason, "{a}" in failure.message) == ("INVALID_ARGUMENT", True)
    assert run.failure("c") is None


def test_the_planner_gets_the_targets_and_the_faults() -> None:
    run = Planned()
    request = assign_task(run.state, run.state.tasks["r.1"], T0).plan_request
    assert [target.role for target in request.targets] == ["booker"]
    assert request.targets[0].tools[0].input_schema_json == '{"type":"object"}'
    assert (request.revision, request.max_steps, request.HasField("previous")) == (1, 1_000, False)
    run.feed(inp.PlanIn("r.1", 1, TaskState.COMPLETED, agent_pb2.TaskResult(), faults=(("", "no JSON"),)))
    assert list(run.assigned().plan_request.faults) == [] or run.state.tasks["r.1"].faults == ("no JSON",)


def test_a_planner_asked_anew_sees_what_was_done() -> None:
    run = Planned(step("a"), step("b", "a", critical=True))
    run.answer("a", "one")
    run.answer("b", "", TaskState.REJECTED)
    request = run.assigned().plan_request
    assert (request.revision, request.reason) == (2, "the critical subtask b failed")
    assert [each.state for each in request.previous.steps] == [
        common_pb2.TASK_STATE_COMPLETED,
        common_pb2.TASK_STATE_REJECTED,
    ]
    assert text_of(request.previous.steps[0].result) == "one"
    assert request.previous.steps[1].failure.message
    assert request.max_steps == 998


def test_the_results_for_a_replan_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RESULT_BYTES", 100)
    run = Planned(step("a"), step("b"), step("c", critical=True))
    run.answer("a", "x" * 60)
    run.answer("b", "y" * 60)
    run.answer("c", "", TaskState.REJECTED)
    steps = run.assigned().plan_request.previous.steps
    assert [bool(each.result) for each in steps] == [True, False, False]
    shown = plan_pb2.Plan()
    write_plan(run.state, shown)
    assert not any(each.result for each in shown.steps), "callers see the states only"


def test_the_targets_of_a_planner_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = plan_target(BOOKER)
    monkeypatch.setattr(module, "MAX_TARGETS_BYTES", whole.ByteSize() - 1)
    (target,) = within_size([plan_target(BOOKER)])
    assert (target.tools[0].description, target.tools[0].input_schema_json) == ("books a thing", "")
    monkeypatch.setattr(module, "MAX_TARGETS_BYTES", 10)
    (target,) = within_size([plan_target(BOOKER)])
    assert (target.tools[0].name, target.tools[0].description, target.capabilities[0].id) == ("book", "", "booking")
    assert not target.HasField("profile")


def test_a_profile_that_is_too_large_keeps_its_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TARGETS_BYTES", 10)
    profile = Profile("x" * 1_000, 2_000, 30, 0.5, {"draft": "editor"}, "y" * 1_000)
    (target,) = within_size([plan_target(replace(BOOKER, profile=profile))])
    assert target.profile == capability_pb2.Profile(
        expected_latency_ms=2_000, expected_cost_micro_usd=30, expected_quality=0.5
    )
    assert (target_from_proto(target).seconds, target_from_proto(target).cost_micro_usd) == (2.0, 30)


def test_measured_averages_replace_what_a_role_expects() -> None:
    average = RoleAverage(tasks=3, seconds=1.25, cost_micro_usd=7.6)
    target = plan_target(replace(BOOKER, profile=Profile("Say what.", 9_000, 99, 0.5)), average)
    assert (target.profile.expected_latency_ms, target.profile.expected_cost_micro_usd) == (1_250, 8)
    assert (target.profile.instructions, target.profile.expected_quality) == ("Say what.", 0.5)
    assert target_from_proto(plan_target(BOOKER, average)).seconds == 1.25, "of a role without a profile, too"
