"""Events as JSON: each kind is read as it was written, with its payload, and what was stored once can be read for ever."""

from __future__ import annotations

import itertools
import json
from dataclasses import fields, replace
from pathlib import Path
from typing import get_args

import pytest

from archon_mesh.core.people import Breakpoint, BreakpointPoint, Decision, DefaultAnswer, QuestionKind, TimeoutPolicy
from archon_mesh.engine import event_codec
from archon_mesh.engine import events as ev
from archon_mesh.engine.event_codec import EventCodec
from archon_mesh.engine.types import (
    NOTHING,
    Amount,
    Budget,
    ClockOrigin,
    ComparedInstance,
    ContextRef,
    InstanceChoice,
    Item,
    PlanRules,
    TaskState,
)
from tests.unit.mesh.engine.test_codec import GONE, PLAN, TERMS, WHOLE

STORED = Path(__file__).with_name("events_v1.jsonl")
VALUE = {"Plan": ["a", 1.5, None], "\N{SNOWMAN}": {"x": True}}
CHOICE = InstanceChoice(
    "record", 3, (ComparedInstance("i", 0.5, 0.59, 12.5, 1.0, 0.25, 1.5, 7.5), ComparedInstance("j", 0))
)

EVENTS: list[ev.Event] = [
    ev.Submitted(WHOLE, "o", 1, ClockOrigin("boot", 1.5)),
    ev.Claimed("o", 2),
    ev.TaskCreated("r.1", "a", predecessors=("r.2", "r.3"), step_id="s"),
    ev.TaskCreated("r.1", "a", "r.0", align=True),
    ev.Planned("r.1", 2, PLAN, ("a repair",), "me", "edit", True, "why"),
    ev.Dispatched("r.1", 1, 1, "a", "i", (ContextRef("b", 3), ContextRef("c", 0, 2, "s")), Amount(1, 2, 3), 4),
    ev.Dispatched("r.1", 1, 1, "a", "i", ()),
    ev.Delegated("r.1", 1, "d", "r.2", "b", "key", 3, "able", 0.5, Budget(1, 2, 3, 4), True, VALUE, GONE),
    ev.DelegationCancelled("r.1", 1, "d", 4),
    ev.BudgetReserved("r.1", 1, "b", 5, Amount(1), None),
    ev.BudgetReserved("r.1", 1, "b", 5, None, GONE),
    ev.ResultReceived("r.1", 1, "a", TaskState.COMPLETED, VALUE, None, True, Amount(1, 2), True, 0.25),
    ev.ResultReceived("r.1", 1, "a", TaskState.FAILED, None, GONE),
    ev.InputRequested("r.1", 1, "a", "q", "Where?", NOTHING, True, 6, QuestionKind.APPROVAL, TERMS),
    ev.ApprovalRequested(
        "r.1", 1, "a", "q", TERMS, VALUE, GONE, NOTHING, True, (Item(2, VALUE),), PLAN, ("c",), "Approve?", "why"
    ),
    ev.QuestionTimedOut("r.1", "q", "rule", TimeoutPolicy.ESCALATE, 2),
    ev.InputGiven("r.1", "q", "me", "request", "f00", "To Rome.", Decision.MODIFY),
    ev.CheckpointTaken("r.1", 1, 7, VALUE),
    ev.ItemPublished("r.1", 1, "a", 8, Item(3, "an item")),
    ev.Paused("me"),
    ev.Resumed("me"),
    ev.Discarded("r.1", 1, "ABORTED", ["late"]),
    ev.Lost("r.1", 1, "i", GONE),
    ev.Rejected("r.1", 1, "i", GONE, 1.25),
    ev.Retried("r.1", 1, "a", GONE, 1.25, Amount(1), VALUE),
    ev.TaskStopping("r.1", "a", 1, GONE),
    ev.TaskEnded("r.1", "a", 1, TaskState.CANCELED, None),
    ev.CancelRequested("me", "why", "CAUSE", GONE),
    ev.Published("r.1", "a", 9, 2),
    ev.Recorded("r.1", 1, 2, 3),
    ev.RunEnded(TaskState.FAILED, GONE, (1, 2)),
    ev.MessageSent("r.1", 1, "a", 9, "m", "b", "error", "c", 1.25, 100, VALUE),
    ev.MessageSent("r.1", 1, "a", 9, "m", "b", "error", failure=GONE, first_seq=7),
    ev.Subscribed("r.1", 1, 10, ("broadcast", "type:error")),
    ev.ResultReceived("r.1", 0, "decision", TaskState.COMPLETED, "360", winner="a"),
    ev.ApprovalRequested("r.1", 0, "decision", "q", TERMS, VALUE, winner="a"),
    ev.Dispatched("r.1", 1, 1, "a", "i", (), placement=CHOICE, expected_seconds=1.5),
    ev.BreakpointsSet("me", (Breakpoint(BreakpointPoint.STEP, "a*"), Breakpoint(BreakpointPoint.MODEL))),
    ev.ApprovalRequested("r.1", 0, "a", "q", TERMS, None, publish=True, message="Held.", breakpoint="task:a"),
    ev.Dispatched("r.1", 1, 1, "a", "i", (), ignores_breakpoints=True),
]


def encoded(*events: ev.Event) -> str:
    return EventCodec().encode(events)


def decoded(text: str) -> list[ev.Event]:
    return EventCodec().read(json.loads(text))


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_is_read_as_it_was_written(event: ev.Event) -> None:
    (again,) = decoded(encoded(event))
    assert again == event
    assert repr(again) == repr(event), "types and payloads, which a comparison does not show"


def test_every_kind_of_event_is_covered() -> None:
    assert {type(event) for event in EVENTS} == set(get_args(ev.Event))


def test_the_rules_of_plans_are_kept() -> None:
    submission = replace(WHOLE, plan_rules=PlanRules(max_attempts=7, are_checked=True, permanent_failures=2))
    (again,) = decoded(encoded(ev.Submitted(submission, "", 1)))
    assert isinstance(again, ev.Submitted)
    assert again.submission.plan_rules == submission.plan_rules


def test_a_default_answer_is_no_payload_of_the_same_form() -> None:
    default = ev.InputGiven("r.1", "q", "", "", "", DefaultAnswer("q", "yes", Decision.APPROVE))
    likeness = ev.InputGiven("r.1", "q", "", "", "", {"default": ["q", "yes", 1]})
    assert [event.payload for event in decoded(encoded(default, likeness)) if isinstance(event, ev.InputGiven)] == [
        default.payload,
        likeness.payload,
    ]


def test_payloads_are_written_and_read_by_the_caller() -> None:
    codec = EventCodec(lambda value: {"held": value}, lambda value: value["held"])
    event = ev.CheckpointTaken("r.1", 1, 7, "state")
    text = codec.encode([event])
    assert '{"held":"state"}' in text
    assert repr(codec.read(json.loads(text))) == repr([event])


def test_events_that_an_earlier_version_stored_are_read() -> None:
    """The file is never changed: a new kind of event, or a new form of one, adds a line."""
    stored = STORED.read_text().splitlines()
    assert len(stored) >= len(EVENTS)
    assert [repr(decoded(line)[0]) for line in stored[: len(EVENTS)]] == [repr(event) for event in EVENTS]


def test_an_event_of_a_later_version_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^events of the type Paused\.2 cannot be read$"):
        decoded('[{"Paused.2":["me","new"]}]')
    with pytest.raises(ValueError, match=r"^an event has more than is known of Paused$"):
        decoded('[{"Paused":["me","new"]}]')


def test_the_last_version_of_an_event_has_all_its_fields() -> None:
    for cls, forms in event_codec._FORMS.items():
        known = [form.split() for form in forms]
        assert set(known[-1]) == {field.name for field in fields(cls)} - event_codec._LEFT_OUT, cls
        for before, after in itertools.pairwise(known):
            assert set(before) < set(after), cls
