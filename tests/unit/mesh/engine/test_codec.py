"""Encoded inputs: each kind decodes to an equal input, without the payload, which its event holds."""

from __future__ import annotations

import itertools
import json
from dataclasses import fields, replace
from pathlib import Path
from typing import get_args

import pytest

from archon_mesh.core.people import (
    Breakpoint,
    BreakpointPoint,
    Condition,
    Decision,
    InterceptionRule,
    QuestionKind,
    QuestionTerms,
    TimeoutPolicy,
    Trigger,
)
from archon_mesh.engine import codec
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.codec import VERSION, decode_inputs, encode_inputs
from archon_mesh.engine.plan import SubTask
from archon_mesh.engine.plan import Task as Plan
from archon_mesh.engine.types import (
    Amount,
    Budget,
    Edge,
    Failure,
    Item,
    PlanTarget,
    Requirement,
    SessionContextRef,
    Submission,
    Target,
    TaskState,
)

GONE = Failure("UNAVAILABLE", "INSTANCE_LOST", "gone \N{SNOWMAN}", (("role", "a"), ("empty", "")), 1.5)
WHOLE = Submission(
    "r",
    "default",
    "q",
    "s",
    "agent",
    ("a", "b"),
    (Edge("a", "b", 2),),
    600.0,
    None,
    (Requirement("b", "able", "1.*"),),
    ("b",),
    (Target("c", "does", True), Target("d")),
    Budget(800, 80, 3),
    (SessionContextRef("x", 3, ("a", "b")),),
    86_400.0,
    rules=(
        InterceptionRule(
            Trigger.CHECKPOINT,
            Condition("build*", step="s?", cost_above=0.5),
            7,
            "deploy",
            ("ann", "bob"),
            60.5,
            TimeoutPolicy.ESCALATE,
            "reject",
            "Deploy?",
        ),
    ),
)
TERMS = QuestionTerms("deploy", ("ann",), 60.5, TimeoutPolicy.DEFAULT, "approve", Trigger.TOOL)
PLAN = Plan(
    "t",
    "query",
    "goal",
    (
        SubTask("a", "does", "output", "tool", {"x": {"y": [1, 2.5, None, "{b}"]}}, ("b",), critical=True, role="r"),
        SubTask("b", "does", capability="able", partial_input=True, confidence=0.5, estimated_seconds=2.0),
        SubTask("c", "does", output_schema={"type": "array", "items": {"enum": [1, "ü"]}}),
    ),
    {"k": {"Plan": "v"}},
)
INPUTS: list[inp.Input] = [
    inp.Submit(replace(WHOLE, targets=(PlanTarget("c", "does", False, ("able",), ("tool",)),)), "o", 1),
    inp.InputMissing("r.1", 1, GONE),
    inp.PlanIn("r.1", 1, TaskState.COMPLETED, None, plan=PLAN),
    inp.PlanIn("r.1", 1, TaskState.COMPLETED, None, faults=(("a", "is wrong"), ("", "is no plan"))),
    inp.EditPlan("me", "q", 7, PLAN),
    inp.Submit(WHOLE, "o", 1),
    inp.Submit(Submission("r", "default", "", "", "pipeline", ("a",), (), 1.0, None), "o", 1),
    inp.Submit(replace(WHOLE, parent_run_id="p"), "o", 1, (inp.ReusedAnswer("a", None, False),)),
    inp.Claim("o", 2),
    inp.SlotFound("r.1", "i"),
    inp.ResultIn("r.1", 1, TaskState.CANCELED, None, GONE, False, 3, Amount(5, 7)),
    inp.ResultIn("r.1", 1, TaskState.COMPLETED, None),
    inp.DelegateIn(
        "r.1", 2, "d1", 4, "a", True, "f00", None, "able", "key", 0.25, Budget(5, 6, 7), True, 2, ("b", "c")
    ),
    inp.DelegateIn("r.1", 1, "d1", 0, "", False, "f00"),
    inp.CancelDelegationIn("r.1", 1, "d1", 5),
    inp.BudgetRequestIn("r.1", 1, "b1", 6, Amount(100, 10)),
    inp.UsageIn("r.1", 1, Amount(2**60, 0)),
    inp.RejectIn("r.1", 1, GONE, 0.5),
    inp.LostIn("r.1", 1, replace(GONE, retry_delay=None, metadata=())),
    inp.LostIn("r.1", 1, GONE, True),
    inp.WorkingIn("r.1", 1),
    inp.RecordsIn("r.1", 1, 2),
    inp.RecordsIn("r.1", 1, 2, 7),
    inp.JournalFull(300, 200),
    inp.PublishedIn("r.1", 3, 4),
    inp.ResultIn("r.1", 1, TaskState.INPUT_REQUIRED, None, input_id="q1", checkpointed=True),
    inp.CheckpointIn("r.1", 1, 5, 2),
    inp.PublishIn("r.1", 1, 6, Item(2, None), 1),
    inp.AskIn("r.1", 1, 7, "q1"),
    inp.AskIn("r.1", 1, 7, "q1", kind=QuestionKind.APPROVAL, terms=TERMS),
    inp.QuestionIn("r.1", 1, TaskState.INPUT_REQUIRED, None, input_id="q1", kind=QuestionKind.INPUT, terms=TERMS),
    inp.ResultIn("r.1", 1, TaskState.COMPLETED, None, items=(Item(3, None),)),
    inp.Cancel("me", "a\nreason"),
    inp.Respond("r.1/q1", "me", "q", "f00d"),
    inp.Respond("r.1/q1", "me", "q", "f00d", decision=Decision.MODIFY, plan=PLAN),
    inp.Pause("me"),
    inp.Resume("me"),
    inp.Tick(),
    inp.DecisionIn("r.1", True),
    inp.DecisionIn("r.1", False, "a tie"),
    inp.SendIn("r.1", 1, 8, "m", "b", "help_request", "c", 2.5, 100, "why", True, 1),
    inp.SubscribeIn("r.1", 1, 9, ("broadcast", "type:error")),
    inp.SetBreakpoints("me", (Breakpoint(BreakpointPoint.TOOL, "pay"), Breakpoint(BreakpointPoint.MODEL))),
    inp.Respond("r.1/q1", "me", "q", "f00d", decision=Decision.MODIFY, is_answer=True),
    inp.SlotFound("r.1", "i", ignores_breakpoints=True),
]


@pytest.mark.parametrize("encoded", INPUTS, ids=lambda encoded: type(encoded).__name__)
def test_an_input_is_decoded_as_it_was_encoded(encoded: inp.Input) -> None:
    (again,), now = decode_inputs(encode_inputs([encoded], 1_000.000001))
    assert again == encoded
    assert repr(again) == repr(encoded), "the types are the same, which a comparison does not show"
    assert now == 1_000.000001


def test_every_kind_of_input_is_covered() -> None:
    assert {type(covered) for covered in INPUTS} == set(get_args(inp.Input))


def test_the_inputs_of_one_append_come_back_together_in_order() -> None:
    assert decode_inputs(encode_inputs(INPUTS, 1.0)) == (INPUTS, 1.0)
    assert decode_inputs(encode_inputs([], 1.0)) == ([], 1.0)


def test_a_payload_is_not_encoded() -> None:
    secret = object()
    inputs: list[inp.Input] = [
        inp.ResultIn("r.1", 1, TaskState.COMPLETED, secret),
        inp.DelegateIn("r.1", 1, "d1", 0, "a", True, "f00", secret),
        inp.Submit(replace(WHOLE, goal=secret), "o", 1),
    ]
    (result, delegated, submitted), _ = decode_inputs(encode_inputs(inputs, 1.0))
    assert isinstance(result, inp.ResultIn)
    assert isinstance(delegated, inp.DelegateIn)
    assert isinstance(submitted, inp.Submit)
    assert result.payload is delegated.payload is submitted.submission.goal is None


def test_inputs_of_another_version_are_refused() -> None:
    _, now, packed = json.loads(encode_inputs(INPUTS, 1.0))
    with pytest.raises(ValueError, match=rf"^inputs of version {VERSION + 1} cannot be read$"):
        decode_inputs(json.dumps([VERSION + 1, now, packed]).encode())


def test_inputs_that_an_earlier_version_stored_are_read() -> None:
    stored = Path(__file__).with_name("inputs_v2.jsonl").read_bytes().splitlines()
    assert [decode_inputs(line) for line in stored] == [([given], 1_000.000001) for given in INPUTS[: len(stored)]]


def test_inputs_of_an_older_revision_get_defaults() -> None:
    whole = json.loads(Path(__file__).with_name("inputs_v2.jsonl").read_bytes().splitlines()[5])
    submission = whole[2][0]["Submit"][0]["Submission"]
    del submission[-5:]
    older = replace(WHOLE, session_context=(), pause_timeout=0.0, rules=())
    assert decode_inputs(json.dumps(whole).encode())[0] == [inp.Submit(older, "o", 1)]
    submission += [[], 0.0, "", [], False, "a field of a later revision"]
    with pytest.raises(ValueError, match=r"^an input has more than is known of Submission$"):
        decode_inputs(json.dumps(whole).encode())


def test_a_type_of_a_later_version_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^inputs of the type Cancel\.2 cannot be read$"):
        decode_inputs(json.dumps([VERSION, 1.0, [{"Cancel.2": ["me", "why", "new"]}]]).encode())


def test_the_last_version_of_a_type_has_all_its_fields_and_each_version_those_before() -> None:
    for cls, forms in codec._FORMS.items():
        known = [form.split() for form in forms]
        assert set(known[-1]) == {field.name for field in fields(cls)} - codec._OPAQUE, cls
        for before, after in itertools.pairwise(known):
            assert set(before) < set(after), cls
