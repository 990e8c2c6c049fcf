"""Rules: when they apply, which of several asks, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from archon.errors import InvalidArgument
from archon.failure_kinds import ErrorSeverity
from archon_mesh.core.people import (
    Condition,
    Decision,
    InterceptionRule,
    QuestionTerms,
    Situation,
    TimeoutPolicy,
    Trigger,
    check_rules,
    decision_of,
    rule_for,
)


def rule(trigger: Trigger, priority: int = 0, name: str = "", **condition: Any) -> InterceptionRule:
    return InterceptionRule(trigger, Condition(**condition), priority, name)


@pytest.mark.parametrize(
    ("condition", "situation", "applies"),
    [
        ({"tool": "mail.*"}, {"tool": "mail.send"}, True),
        ({"tool": "mail.*"}, {"tool": "web.get"}, False),
        ({}, {"tool": "web.get", "marked": True}, True),
        ({}, {"tool": "web.get"}, False),
        ({"role": "clerk"}, {"tool": "x", "role": "clerk", "marked": True}, True),
        ({"role": "clerk"}, {"tool": "x", "role": "cook", "marked": True}, False),
    ],
)
def test_a_rule_for_tools_matches_names_or_dangerous_ones(
    condition: dict[str, Any], situation: dict[str, Any], applies: bool
) -> None:
    assert rule(Trigger.TOOL, **condition).matches(Situation(Trigger.TOOL, **situation)) is applies


@pytest.mark.parametrize(
    ("condition", "situation", "applies"),
    [
        ({}, {"step": "s1"}, False),
        ({}, {"step": "s1", "marked": True}, True),
        ({"step": "s?"}, {"step": "s1"}, True),
        ({"step": "s?"}, {"step": "s12"}, False),
        ({"role": "b*"}, {"role": "builder"}, True),
        ({"role": "b*", "tenant": "acme"}, {"role": "builder", "tenant": "other"}, False),
        ({"step": "s1", "cost_above": 0.5}, {"step": "s1", "cost": 0.5}, False),
        ({"step": "s1", "cost_above": 0.5}, {"step": "s1", "cost": 0.6}, True),
    ],
)
def test_a_rule_for_checkpoints_matches_marks_or_names(
    condition: dict[str, Any], situation: dict[str, Any], applies: bool
) -> None:
    assert rule(Trigger.CHECKPOINT, **condition).matches(Situation(Trigger.CHECKPOINT, **situation)) is applies


def test_confidence_and_severity_have_strict_and_inclusive_limits() -> None:
    unsure = rule(Trigger.CONFIDENCE, confidence_below=0.7)
    assert unsure.matches(Situation(Trigger.CONFIDENCE, confidence=0.69))
    assert not unsure.matches(Situation(Trigger.CONFIDENCE, confidence=0.7))
    severe = rule(Trigger.ERROR, severity_at_least=ErrorSeverity.HIGH)
    assert severe.matches(Situation(Trigger.ERROR, severity=ErrorSeverity.HIGH))
    assert not severe.matches(Situation(Trigger.ERROR, severity=ErrorSeverity.MEDIUM))


def test_the_highest_priority_asks_and_of_equals_the_first() -> None:
    rules = [
        rule(Trigger.PLAN, 1, "a"),
        rule(Trigger.PLAN, 5, "b"),
        rule(Trigger.PLAN, 5, "c"),
        rule(Trigger.REPLAN, 9),
    ]
    chosen = rule_for(rules, Situation(Trigger.PLAN))
    assert chosen is not None
    assert chosen.name == "b"
    assert rule_for(rules, Situation(Trigger.ERROR)) is None


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"trigger": Trigger.CONFIDENCE}, "condition.confidence_below"),
        ({"trigger": Trigger.ERROR}, "condition.severity_at_least"),
        ({"trigger": Trigger.PLAN, "condition": Condition(tool="x")}, "condition.tool"),
        ({"trigger": Trigger.TOOL, "condition": Condition(cost_above=1.0)}, "condition.cost_above"),
        ({"trigger": Trigger.PLAN, "timeout": -1.0}, "timeout"),
        ({"trigger": Trigger.PLAN, "on_timeout": TimeoutPolicy.DEFAULT}, "default"),
        ({"trigger": Trigger.PLAN, "on_timeout": TimeoutPolicy.ESCALATE}, "approvers"),
        ({"trigger": Trigger.PLAN, "default": "maybe"}, "default"),
        ({"trigger": Trigger.PLAN, "condition": Condition(confidence_below=2.0)}, "condition.confidence_below"),
    ],
)
def test_a_rule_that_makes_no_sense_names_its_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        InterceptionRule(**fields)
    assert field in [violation.field for violation in refused.value.field_violations]


def test_a_rule_in_the_wrong_place_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="plan does not belong here"):
        check_rules([rule(Trigger.PLAN)], [Trigger.TOOL])


def test_approvers_are_asked_in_turn_only_if_escalated() -> None:
    terms = QuestionTerms("r", ("ann", "bob"), 5.0, TimeoutPolicy.ESCALATE)
    assert (terms.asked_at(0), terms.asked_at(1)) == (("ann",), ("ann", "bob"))
    assert [terms.policy_after(level) for level in (0, 1)] == [TimeoutPolicy.ESCALATE, TimeoutPolicy.ABORT]
    anyone = QuestionTerms("r", ("ann", "bob"), 5.0, TimeoutPolicy.DEFAULT, "approve")
    assert (anyone.asked_at(0), anyone.policy_after(0)) == (("ann", "bob"), TimeoutPolicy.DEFAULT)


@pytest.mark.parametrize(
    ("text", "decision"),
    [(" Yes. ", Decision.APPROVE), ("approve", Decision.APPROVE), ("NO", Decision.REJECT), ("perhaps", Decision(0))],
)
def test_a_plain_text_may_say_a_decision(text: str, decision: Decision) -> None:
    assert decision_of(text) is decision
