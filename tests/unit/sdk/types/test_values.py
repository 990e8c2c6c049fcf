"""Plain values and their messages."""

from __future__ import annotations

from typing import Any

import pytest

from archon.api.common.v1 import common_pb2
from archon.errors import FieldViolation, InvalidArgument
from archon.failure_kinds import ErrorSeverity, FailureClass, RetryAdvice
from archon.memory import PropagationPolicy, Published, PublishItem
from archon.types import (
    Budget,
    Edge,
    Failure,
    MemoryRef,
    Part,
    Plan,
    PlanStep,
    QuestionTerms,
    TaskRef,
    TaskState,
    Usage,
)
from archon.types.part import json_part, to_messages, to_parts
from archon_mesh.planning.parse import parse_plan

PARTS = [
    Part(text="hello"),
    Part(text=""),
    Part(raw=b"\x00\xff", filename="a.bin", media_type="application/x-a"),
    Part(url="https://example.org/a.png", media_type="image/png", metadata={"org.example/a": "b"}),
    Part(data_json="[1, null]", media_type="application/json"),
]

FAILURE = Failure(
    *("tool.timeout", "too slow", "DEADLINE_EXCEEDED", "RUN_TIMEOUT", FailureClass.TOOL, ErrorSeverity.HIGH),
    *(RetryAdvice.LATER, 1.5, {"a": "b"}, (FieldViolation("goal", "too long"),), (Failure("tool.crash", "it broke"),)),
)
STEP = PlanStep(
    *("s2", "Write it.", "writer", "type", ("s1",), "a text", '{"n": 1}', '{"type": "object"}', "prose"),
    critical=True,
    partial_input=True,
    checkpoint=True,
    expand=True,
    expand_on_failure=True,
    exact=True,
    confidence=0.5,
    estimated_seconds=2.0,
    estimated_cost_micro_usd=7,
    task_id="t1",
    state=TaskState.COMPLETED,
    result=(Part(text="done"),),
    failure=FAILURE,
)


@pytest.mark.parametrize(
    "value",
    [
        *PARTS,
        Failure(),
        FAILURE,
        Edge("a", "b", PropagationPolicy.FULL_HISTORY, True, ("i1",)),
        PlanStep("s1", "Read."),
        STEP,
        Plan(2, "a book", (PlanStep("s1", "Read."), STEP), "", '{"k": 1}', ("a change",), 9),
        QuestionTerms(),
        QuestionTerms("r", ("ann",), 60.0, "escalate", "approve", "plan"),
        PublishItem("a"),
        PublishItem("a", "text", {"k": "v"}, PropagationPolicy.TOOL_RESULTS, 60.0, "run", 2, 7, "t1"),
        Published("a", 3, True),
        Budget(),
        Budget(1_000, 2_000_000, 0.25, 3, 7),
        Usage(1, 2, 3, 4, 5, 6, 7, estimated=True),
        TaskRef("task", "run", 3, 9),
        MemoryRef("scope", "role", 2, "run", 5),
    ],
    ids=repr,
)
def test_a_value_is_read_back_from_its_message(value: Any) -> None:
    proto = value.proto
    again = type(proto).FromString(proto.SerializeToString())
    assert type(value).from_proto(again) == value


def test_each_state_has_its_number() -> None:
    states = {TaskState.from_proto(number): number for number in common_pb2.TaskState.values()}
    assert {state: state.proto for state in TaskState} == states | {TaskState.UNKNOWN: 0}
    assert TaskState.from_proto(99) is TaskState.UNKNOWN
    assert {state for state in TaskState if state.final} == {"completed", "failed", "canceled", "rejected"}


def test_a_plan_is_written_in_the_json_of_planners() -> None:
    plan = Plan(1, "a book", (PlanStep("s1", "Read.", "reader"), STEP), context_json='{"k": 1}')
    read = parse_plan(plan.to_json(), "", "")
    assert (read.goal, read.context) == ("a book", {"k": 1})
    written = [(step.id, step.role, step.dependencies, step.tool_args, step.exact) for step in read.subtasks]
    assert written == [("s1", "reader", (), {}, False), ("s2", "writer", ("s1",), {"n": 1}, True)]


def test_a_plan_with_arguments_that_are_no_json_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="not JSON"):
        Plan(1, "x", (PlanStep("s1", "Read.", tool_args_json="{"),)).to_json()


def test_lists_of_parts_keep_their_order() -> None:
    assert to_parts(to_messages(PARTS)) == tuple(PARTS)


@pytest.mark.parametrize("fields", [{}, {"text": "a", "url": "b"}, {"raw": b"", "data_json": "1"}])
def test_a_part_has_exactly_one_content(fields: dict[str, str | bytes]) -> None:
    with pytest.raises(InvalidArgument, match="exactly one"):
        Part(**fields)  # type: ignore[arg-type]


def test_a_part_of_a_later_version_reads_as_an_empty_text() -> None:
    assert Part.from_proto(common_pb2.Part(filename="a")) == Part(text="", filename="a")


@pytest.mark.parametrize("field", ["max_tokens", "max_cost_micro_usd", "max_time", "max_depth", "max_model_calls"])
@pytest.mark.parametrize("value", [-1, float("nan")])
def test_a_limit_is_no_negative_number(field: str, value: float) -> None:
    with pytest.raises(InvalidArgument, match=field):
        Budget(**{field: value})  # type: ignore[arg-type]


def test_negative_counts_of_an_agent_read_as_zero() -> None:
    assert Usage.from_proto(common_pb2.Usage(input_tokens=-1, tool_calls=2)) == Usage(tool_calls=2)


def test_json_part_has_its_media_type() -> None:
    part = json_part('{"a": "\ud800"}')
    assert (part.data_json, part.media_type) == ('{"a": "?"}', "application/json")


def test_negative_limits_of_a_budget_read_as_none() -> None:
    assert Budget.from_proto(common_pb2.Budget(max_tokens=-(2**62), max_depth=2)) == Budget(max_depth=2)


@pytest.mark.parametrize("fields", [{"on_timeout": "abandon"}, {"trigger": "toool"}])
def test_terms_with_a_misspelt_word_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="it can be"):
        QuestionTerms(**fields)
