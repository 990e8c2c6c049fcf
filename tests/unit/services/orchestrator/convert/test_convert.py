"""Conversion of the engine's events to the journal's and back: each event is read as it was written."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2, failure_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import DataLoss
from archon.failure_kinds import RetryAdvice
from archon.wire import timestamp
from archon_mesh.core.people import (
    Breakpoint,
    BreakpointPoint,
    Decision,
    QuestionKind,
    QuestionTerms,
    TimeoutPolicy,
    Trigger,
)
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.codec import decode_inputs, encode_inputs
from archon_mesh.engine.plan import SubTask
from archon_mesh.engine.plan import Task as Plan
from archon_mesh.engine.types import (
    NOTHING,
    Amount,
    Budget,
    ClockOrigin,
    ContextRef,
    Edge,
    Failure,
    Item,
    Requirement,
    SessionContextRef,
    Submission,
    Target,
    TaskState,
    quantize,
)
from archon_services.orchestrator.convert import event_from_proto, failure_from_proto, failure_to_proto
from tests.fixtures.run_events import event_to_proto

GONE = Failure("UNAVAILABLE", "INSTANCE_LOST", "gone", (("role", "a"),), 1.5)
LOOP = Failure("FAILED_PRECONDITION", "DELEGATION_LOOP", "a waits for this very task", (("chain", "a -> a"),))
SPENT = Failure("RESOURCE_EXHAUSTED", "BUDGET_EXHAUSTED", "nothing left", (("role", "a"),))
SUBMISSION = Submission(
    "r",
    "default",
    "q",
    "s",
    "agent",
    ("a", "b"),
    (Edge("a", "b", 2),),
    600.25,
    None,
    (Requirement("b", "able", "1.*"),),
    ("b",),
    (Target("c", "does", True), Target("d")),
    Budget(800, 80, 3),
)
PLAN = Plan(
    "",
    "",
    "goal",
    (
        SubTask("a", "does", "a list", "tool", {"x": [1, {"y": "{b}"}]}, ("b",), role="r", critical=True),
        SubTask("b", "does", role="r", capability="able", partial_input=True, confidence=0.5, estimated_seconds=2.5),
        SubTask("c", "does", output_schema={"type": "array", "items": {"enum": [1, "ü"]}}),
        SubTask("d", "bids", role="r", bid_for="f", timeout_seconds=2.5),
        SubTask("e", "awards", dependencies=("d",), decision="award", quorum=1, delay_seconds=0.5),
        SubTask("f", "does", dependencies=("e",), assigned_by="e"),
    ),
    {"key": "value"},
)
DELEGATED = ev.Delegated("r.1", 2, "d1", "r.2", "a", "key", 4, "able", 0.25)
TERMS = QuestionTerms("deploy", ("ann", "bob"), 60.5, TimeoutPolicy.ESCALATE, "approve", Trigger.CHECKPOINT)
EVENTS: list[ev.Event] = [
    ev.Submitted(SUBMISSION, "o", 1),
    ev.Claimed("o", 3),
    ev.Claimed("o", 3, origin=ClockOrigin("boot", 1_700_000_000.5)),
    ev.TaskCreated("r.1", "a"),
    ev.TaskCreated("r.2", "a", "r.1"),
    ev.TaskCreated("r.3", "a", "", ("r.1", "r.2"), "step"),
    ev.TaskCreated("r.4", "planner", "", ("r.3",)),
    ev.Planned("r.1", 1, PLAN, ("a change", "another")),
    ev.Planned("", 2, PLAN, (), "me", "e1"),
    ev.TaskCreated("r.5", "planner", align=True),
    ev.Planned("r.5", 3, PLAN, reason="it strays"),
    ev.CancelRequested("", "a step failed", "PLAN_FAILED"),
    ev.Dispatched("r.1", 1, 3, "a", "i", (ContextRef("b", 5),), None),
    ev.Dispatched("r.1", 1, 3, "a", "i", (ContextRef("x", 0, 7, "s"), ContextRef("b", 5)), None),
    ev.Dispatched("r.1", 1, 3, "a", "i", (), Amount(100, 10)),
    ev.Dispatched("r.1", 1, 3, "a", "i", (), NOTHING),
    DELEGATED,
    ev.Delegated("r.1", 2, "d1", "", "a", "key", 4, "", 60.0, failure=LOOP),
    ev.DelegationCancelled("r.1", 2, "d1", 5),
    ev.BudgetReserved("r.1", 2, "b1", 6, Amount(5, 7)),
    ev.BudgetReserved("r.1", 2, "b1", 6, NOTHING),
    ev.BudgetReserved("r.1", 2, "b1", 6, None),
    ev.ResultReceived("r.1", 1, "a", TaskState.COMPLETED, None, None, True),
    ev.ResultReceived("r.1", 1, "a", TaskState.FAILED, None, SPENT),
    ev.InputRequested("r.1", 1, "a", "r.1/q1", None),
    ev.InputRequested("r.1", 1, "a", "r.1/q1", None, sequence=4),
    ev.InputGiven("r.1", "r.1/q1", "me", "q", "f00d", None),
    ev.InputGiven("r.1", "r.1/q1", "me", "q", "f00d", None, Decision.REJECT),
    ev.InputRequested("r.1", 1, "a", "r.1/q1", None, kind=QuestionKind.APPROVAL, terms=TERMS),
    ev.ApprovalRequested("r.1", 1, "a", "r.1/approval-1", TERMS, None, None, NOTHING, True, (Item(2, None),)),
    ev.ApprovalRequested("r.1", 1, "a", "r.1/approval-1", TERMS, None, GONE),
    ev.ApprovalRequested(
        "r.1", 1, "a", "r.1/approval-1", TERMS, None, plan=PLAN, changes=("dropped x",), reason="it strays"
    ),
    ev.ApprovalRequested("r.1", 0, "a", "r.1/breakpoint", TERMS, None, publish=True, breakpoint="task:a"),
    ev.BreakpointsSet("me", (Breakpoint(BreakpointPoint.STEP, "a*"), Breakpoint(BreakpointPoint.MODEL))),
    ev.Dispatched("r.1", 1, 1, "a", "i", (), ignores_breakpoints=True),
    ev.QuestionTimedOut("r.1", "r.1/q1", "deploy", TimeoutPolicy.ESCALATE, 1),
    ev.CheckpointTaken("r.1", 1, 5, None),
    ev.ItemPublished("r.1", 1, "a", 6, Item(2, None)),
    ev.ItemPublished("r.1", 1, "a", 0, Item(3, None)),
    ev.MessageSent("r.1", 1, "a", 7, "m", "b", "help_request", "c", 2.5),
    ev.MessageSent("r.1", 1, "a", 8, "m", "", "error", failure=GONE),
    ev.MessageSent("r.1", 2, "a", 1, "m", "", "error", first_seq=7),
    ev.Subscribed("r.1", 1, 2, ("broadcast", "type:error")),
    ev.Paused("me"),
    ev.Resumed("you"),
    ev.Discarded("r.1", 1, "BUDGET_EXHAUSTED"),
    ev.Lost("r.1", 1, "i", GONE),
    ev.Rejected("r.1", 1, "i", GONE, 1_000.000001),
    ev.Retried("r.1", 1, "a", GONE, 1_000.000001),
    ev.TaskStopping("r.2", "a", 1, SPENT),
    ev.TaskEnded("r.2", "a", 1, TaskState.CANCELED, SPENT),
    ev.TaskEnded("r.2", "a", 0, TaskState.CANCELED, None),
    ev.CancelRequested("me", "enough"),
    ev.CancelRequested("", "nothing left", "BUDGET_EXHAUSTED"),
    ev.CancelRequested("", "too late", "RUN_TIMEOUT"),
    ev.CancelRequested("", "late", "RUN_TIMEOUT", Failure("DEADLINE_EXCEEDED", "RUN_TIMEOUT", "late", (("a", "b"),))),
    ev.Published("r.1", "a", 5, 2),
    ev.Recorded("r.1", 1, 3),
    ev.RunEnded(TaskState.FAILED, SPENT, ()),
    ev.RunEnded(TaskState.COMPLETED, None, (5, 7)),
]


def written(event: ev.Event) -> run_pb2.RunEvent:
    """Returns an event as the journal stores it."""
    proto = event_to_proto(event, run_id="r", seq=7, time=timestamp(1_000.5), epoch=3)
    return run_pb2.RunEvent.FromString(proto.SerializeToString())


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_is_read_as_it_was_written(event: ev.Event) -> None:
    proto = written(event)
    assert event_from_proto(proto) == event
    assert (proto.run_id, proto.seq, proto.time.ToMilliseconds()) == ("r", 7, 1_000_500)
    assert proto.task.task_id == getattr(event, "task_id", "")


def test_every_kind_of_event_is_covered() -> None:
    assert {type(event) for event in EVENTS} == set(get_args(ev.Event))


def test_a_delegation_keeps_its_input_budget_and_checkpoint() -> None:
    payload = run_pb2.Delegated(input=[common_pb2.Part(text="an egg")], checkpoint=b"half way")
    payload.budget.max_tokens, payload.budget.max_cost_micro_usd, payload.budget.max_depth = 5, 6, 7
    payload.trace.traceparent = "00-1-2-01"
    event = replace(DELEGATED, payload=payload, budget=Budget(5, 6, 7), checkpointed=True)
    again = event_from_proto(written(event))
    assert again == event
    assert isinstance(again, ev.Delegated)
    assert isinstance(again.payload, run_pb2.Delegated)
    assert (again.payload.input, again.payload.trace) == (payload.input, payload.trace)
    assert again.payload.child_task_id == "r.2"
    assert not payload.child_task_id, "the agent's frame must not be changed"


@pytest.mark.parametrize("timeout", [-1.5, -0.25, 0.0, 0.000001, 59.999999, 1001.8054532504499])
def test_the_time_of_a_delegation_is_read_to_the_microsecond(timeout: float) -> None:
    event = replace(DELEGATED, timeout=quantize(timeout))
    assert event_from_proto(written(event)) == event


def test_the_amount_of_a_result_is_read_from_its_usage() -> None:
    usage = common_pb2.Usage(input_tokens=3, output_tokens=4, cost_micro_usd=5)
    payload = agent_pb2.TaskResult(usage=usage, output=[common_pb2.Part(text="x")], metadata={"a.b/c": "d"})
    event = ev.ResultReceived("r.1", 1, "a", TaskState.COMPLETED, payload, None, True, Amount(7, 5))
    again = event_from_proto(written(event))
    assert again == event
    assert isinstance(again, ev.ResultReceived)
    assert again.payload == agent_pb2.TaskResult(
        state=common_pb2.TASK_STATE_COMPLETED, usage=usage, output=payload.output, metadata=payload.metadata
    )


@pytest.mark.parametrize("is_held", [False, True])
def test_the_winner_of_an_award_is_in_the_journal(is_held: bool) -> None:
    """Of a result, and of one that waits for the approval of a person."""
    payload = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_COMPLETED)
    payload.resolution.rule, payload.resolution.winner_step_id = "award", "d"
    event: ev.Event = ev.ResultReceived("r.1", 0, "decision", TaskState.COMPLETED, payload, winner="d")
    if is_held:
        event = ev.ApprovalRequested("r.1", 0, "decision", "r.1/approval-1", TERMS, payload, winner="d")
    again = event_from_proto(written(event))
    assert again == event
    assert isinstance(again, (ev.ResultReceived, ev.ApprovalRequested))
    assert again.winner == "d"


@pytest.mark.parametrize("arm", ["text_delta", "tool_event", ""])
def test_an_event_that_this_revision_does_not_know_is_data_loss(arm: str) -> None:
    proto = run_pb2.RunEvent(run_id="r", seq=7)
    if arm:
        getattr(proto, arm).SetInParent()
    with pytest.raises(DataLoss, match="event 7 of run r"):
        event_from_proto(proto)


def test_a_question_keeps_its_prompt_checkpoint_and_usage() -> None:
    payload = agent_pb2.TaskResult(checkpoint=b"half way")
    payload.usage.input_tokens = 7
    payload.input_request.input_id, payload.input_request.schema_json = "q1", "{}"
    payload.input_request.prompt.add(text="which?")
    event = ev.InputRequested("r.1", 1, "a", "r.1/q1", payload, Amount(7), True)
    again = event_from_proto(written(event))
    assert again == event
    assert isinstance(again, ev.InputRequested)
    assert isinstance(again.payload, agent_pb2.TaskResult)
    assert again.payload.input_request.prompt == payload.input_request.prompt
    assert again.payload.input_request.schema_json == "{}"
    assert (again.payload.checkpoint, again.payload.usage) == (b"half way", payload.usage)


def test_an_answer_and_a_checkpoint_are_kept_as_they_are() -> None:
    answer = run_pb2.InputGiven(parts=[common_pb2.Part(text="this one")])
    given = event_from_proto(written(ev.InputGiven("r.1", "r.1/q1", "me", "", "00", answer)))
    assert isinstance(given, ev.InputGiven)
    assert isinstance(given.payload, run_pb2.InputGiven)
    assert given.payload.parts == answer.parts
    taken = event_from_proto(written(ev.CheckpointTaken("r.1", 1, 2, run_pb2.CheckpointTaken(size=3, data=b"abc"))))
    assert isinstance(taken, ev.CheckpointTaken)
    assert isinstance(taken.payload, run_pb2.CheckpointTaken)
    assert taken.payload.data == b"abc"


def test_durability_16_recalled_items_keep_content_and_readers() -> None:
    ref = common_pb2.MemoryRef(scope="s", role="x", version=3, run_id="earlier", seq=9)
    item = common_pb2.ContextItem(ref=ref, parts=[common_pb2.Part(text="known")])
    goal = run_pb2.Submitted(session_context=[run_pb2.SessionContext(item=item, readers=["a", "b"])])
    event = ev.Submitted(
        replace(SUBMISSION, goal=goal, session_context=(SessionContextRef("x", 3, ("a", "b")),)), "o", 1
    )
    stored = event_to_proto(event, run_id="r", seq=1, time=timestamp(1_000.5), epoch=1)
    assert stored.submitted.session_context == goal.session_context
    assert event_from_proto(stored) == event


WHOLE = failure_pb2.Failure(
    code=14,
    reason=failure_pb2.ERROR_REASON_UNAVAILABLE,
    message="the store is unreachable",
    failure_class=failure_pb2.FAILURE_CLASS_MEMORY,
    retry=failure_pb2.RETRY_ELSEWHERE,
    severity=failure_pb2.SEVERITY_CRITICAL,
    kind="memory.retrieval",
    metadata={"store": "sqlite"},
    field_violations=[failure_pb2.FieldViolation(field="goal[0].text", description="empty")],
)
WHOLE.retry_delay.FromMilliseconds(1500)
WHOLE.causes.add(
    code=2,
    reason=failure_pb2.ERROR_REASON_UNKNOWN,
    message="connection reset",
    failure_class=failure_pb2.FAILURE_CLASS_INFRASTRUCTURE,
    retry=failure_pb2.RETRY_LATER,
    severity=failure_pb2.SEVERITY_LOW,
    kind="infrastructure.partition",
)


def test_a_failure_keeps_every_field_of_the_contract() -> None:
    fields = {field.name for field, _ in WHOLE.ListFields()}
    assert fields == {field.name for field in WHOLE.DESCRIPTOR.fields}, "a field of the contract is not tested"
    assert failure_to_proto(failure_from_proto(WHOLE)) == WHOLE


def test_a_failure_of_an_input_keeps_every_field_when_it_is_stored() -> None:
    given = inp.LostIn("r.1", 1, failure_from_proto(WHOLE))
    (stored,), _ = decode_inputs(encode_inputs([given], 1.0))
    assert stored == given


def test_a_failure_stored_by_an_earlier_version_gets_the_kind_of_its_reason() -> None:
    old = b'[2,1.0,[{"LostIn":["r.1",1,{"Failure":["UNAVAILABLE","UNAVAILABLE","gone",[],1.5]}]}]]'
    (stored,), _ = decode_inputs(old)
    assert isinstance(stored, inp.LostIn)
    assert (stored.failure.kind, stored.failure.retry) == ("infrastructure.partition", RetryAdvice.LATER)
