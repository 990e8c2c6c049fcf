"""What handlers receive and return: plain values, read from messages when they are looked at."""

from __future__ import annotations

import pytest

from archon.agent import (
    CallRecord,
    GivenAnswer,
    HistoryMessage,
    Item,
    PlanRequest,
    Question,
    QuestionTerms,
    TaskContext,
    ToolHealth,
    TraceContext,
)
from archon.agent.history import history_from_proto, history_to_proto
from archon.agent.question import answer_from_proto, question_from_proto, question_to_proto
from archon.agent.values import parts_of
from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import capability_pb2, common_pb2, failure_pb2, plan_pb2, question_pb2
from archon.registry import Capability, Profile, Tool
from archon.types import Budget, MemoryRef, Part, Usage
from archon.types.part import to_messages, to_parts
from archon.types.task_state import TaskState
from tests.fixtures.fake_link import FakeLink

PICTURE = Part(raw=b"\x89", media_type="image/png", filename="a.png")
VALUES = [
    CallRecord("model", "m", '{"a":1}', '"b"', 1_700_000_000.25, 0.5, Usage(1, 2, 3, estimated=True)),
    CallRecord("tool", "t"),
    ToolHealth("look", "1.0.0", 5, 4, 3, 2, 0.25, 1.5, slow=True, breaker="half_open"),
    ToolHealth("look"),
    TraceContext("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=b"),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_of_agents_is_read_back_from_its_message(value: CallRecord | ToolHealth | TraceContext) -> None:
    again = type(value.proto).FromString(value.proto.SerializeToString())
    assert type(value).from_proto(again) == value  # type: ignore[arg-type]


def test_a_record_and_a_breaker_of_a_later_version_have_no_kind() -> None:
    assert CallRecord.from_proto(agent_pb2.CallRecord(kind=99)).kind == ""  # type: ignore[arg-type]
    later = ToolHealth("look").proto
    later.breaker = 99  # type: ignore[assignment]
    assert ToolHealth.from_proto(later).breaker == ""


@pytest.mark.parametrize(
    "question",
    [
        Question("which?"),
        Question("Pay?", '{"type":"object"}', b"page 7", "q", (PICTURE,), True, subject_json='{"tool":"pay"}'),
        Question("Pay?", terms=QuestionTerms("a rule", ("ann", "bob"), 2.5, "escalate", "approve", "tool")),
        Question(parts=(PICTURE,), terms=QuestionTerms(on_timeout="abort")),
    ],
)
def test_a_question_is_read_back_from_its_message(question: Question) -> None:
    read = question_from_proto(question_to_proto(question, question.input_id), question.checkpoint)
    assert read == question


def test_a_given_answer_has_its_decision_by_name() -> None:
    message = session_pb2.Input(input_id="q", identity="ann", decision=question_pb2.DECISION_MODIFY)
    message.parts.add(data_json="[1]")
    assert answer_from_proto(message) == GivenAnswer("q", "[1]", (Part(data_json="[1]"),), "modify", "ann")
    message.decision = 99  # type: ignore[assignment]
    assert answer_from_proto(message).decision == ""


def test_parts_of_a_history_message_and_of_an_item_precede_the_text() -> None:
    message = HistoryMessage("tool", "found", (PICTURE,), {"org.example/a": "b"})
    assert to_parts(history_to_proto(message).parts) == (PICTURE, Part(text="found"))
    assert history_from_proto(history_to_proto(message)) == message
    assert to_parts(parts_of(Item("found", parts=[PICTURE]))) == (PICTURE, Part(text="found"))


def test_a_task_shows_what_it_was_assigned_as_plain_values() -> None:
    assigned = agent_pb2.AssignTask(
        input=to_messages([Part(text="look"), PICTURE]),
        budget=common_pb2.Budget(max_tokens=7, max_model_calls=-1),
        trace=common_pb2.TraceContext(traceparent="00-1-2-01"),
        resume=agent_pb2.Resume(inputs=[common_pb2.Part(text="red")]),
        context=[common_pb2.ContextItem(ref=MemoryRef("r", "cook", 2, "r", 9).proto, parts=[PICTURE.proto])],
    )
    task = TaskContext.from_proto(common_pb2.TaskRef(task_id="t", attempt=1), assigned, FakeLink([]))
    assert (task.parts, task.inputs) == ((Part(text="look"), PICTURE), (Part(text="red"),))
    assert task.parts is task.parts, "converted once"
    assert (task.budget, task.trace) == (Budget(max_tokens=7), TraceContext("00-1-2-01"))
    assert (task.used, task.context[0].parts) == ([MemoryRef("r", "cook", 2, "r", 9)], (PICTURE,))
    assert (task.usage, task.plan_request, task.proto) == (Usage(), None, assigned)


def test_a_request_for_a_plan_shows_roles_and_the_previous_plan() -> None:
    steps = [
        plan_pb2.PlanStep(step_id="a", role="cook", state=common_pb2.TASK_STATE_COMPLETED, result=[PICTURE.proto]),
        plan_pb2.PlanStep(
            step_id="b",
            dependencies=["a"],
            state=common_pb2.TASK_STATE_FAILED,
            failure=failure_pb2.Failure(message="no"),
        ),
    ]
    target = plan_pb2.PlanTarget(
        role="cook",
        description="Cooks.",
        capabilities=[capability_pb2.Capability(id="soup")],
        tools=[capability_pb2.Tool(name="stir", hints=capability_pb2.ToolHints(idempotent=True))],
        profile=capability_pb2.Profile(expected_latency_ms=5),
    )
    message = agent_pb2.PlanRequest(
        targets=[target, plan_pb2.PlanTarget(role="waiter")],
        max_steps=9,
        revision=2,
        previous=plan_pb2.Plan(goal="lunch", revision=1, steps=steps),
        reason="b failed",
        faults=["no JSON"],
        align=True,
        expand=["b"],
    )
    request = PlanRequest(message)
    cook, waiter = request.targets
    assert (cook.role, cook.description, cook.capabilities) == ("cook", "Cooks.", (Capability("soup"),))
    assert (cook.tools, cook.profile) == ((Tool("stir", idempotent=True),), Profile(expected_latency_ms=5))
    assert (waiter.role, waiter.tools, waiter.profile) == ("waiter", (), None)
    assert (request.max_steps, request.revision, request.reason) == (9, 2, "b failed")
    assert (request.faults, request.expand) == (("no JSON",), ("b",))
    assert (request.align, request.synthesise) == (True, False)
    assert request.previous is not None
    a, b = request.previous.steps
    assert (a.state, a.result, a.failure) == (TaskState.COMPLETED, (PICTURE,), None)
    assert (b.dependencies, b.failure and b.failure.message) == (("a",), "no")
    assert PlanRequest(agent_pb2.PlanRequest()).previous is None
