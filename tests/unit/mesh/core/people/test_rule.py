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
from archon_mesh.core.people.rule import MAX_RULES
from archon_mesh.core.people.terms import MAX_APPROVERS, MAX_DEFAULT, MAX_TIMEOUT


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
    ("fields", "field", "mistake"),
    [
        ({"trigger": Trigger.UNSPECIFIED}, "trigger", "is missing"),
        (
            {"trigger": Trigger.CONFIDENCE},
            "condition.confidence_below",
            "is missing: the trigger confidence needs it",
        ),
        ({"trigger": Trigger.ERROR}, "condition.severity_at_least", "is missing: the trigger error needs it"),
        (
            {"trigger": Trigger.PLAN, "condition": Condition(tool="x")},
            "condition.tool",
            "has no meaning for the trigger plan",
        ),
        (
            {"trigger": Trigger.PLAN, "condition": Condition(step="x")},
            "condition.step",
            "has no meaning for the trigger plan",
        ),
        (
            {"trigger": Trigger.TOOL, "condition": Condition(cost_above=0.5)},
            "condition.cost_above",
            "has no meaning for the trigger tool",
        ),
        (
            {"trigger": Trigger.TOOL, "condition": Condition(tenant="acme")},
            "condition.tenant",
            "has no meaning for the trigger tool",
        ),
        (
            {"trigger": Trigger.CHECKPOINT, "condition": Condition(severity_at_least=1)},
            "condition.severity_at_least",
            "has no meaning for the trigger checkpoint",
        ),
        ({"trigger": Trigger.PLAN, "timeout": -1.0}, "timeout", "must be 0 to 2,592,000 seconds"),
        ({"trigger": Trigger.PLAN, "timeout": MAX_TIMEOUT + 1}, "timeout", "must be 0 to 2,592,000 seconds"),
        (
            {"trigger": Trigger.PLAN, "on_timeout": TimeoutPolicy.DEFAULT},
            "default",
            "is missing: with on_timeout default it is the answer",
        ),
        (
            {"trigger": Trigger.PLAN, "on_timeout": TimeoutPolicy.ESCALATE},
            "approvers",
            "is missing: with on_timeout escalate it lists who is asked in turn",
        ),
        (
            {"trigger": Trigger.PLAN, "approvers": ("x",) * (MAX_APPROVERS + 1)},
            "approvers",
            "has more than 20 identities",
        ),
        (
            {"trigger": Trigger.TOOL, "default": "x" * (MAX_DEFAULT + 1)},
            "default",
            "has more than 16,384 characters",
        ),
        (
            {"trigger": Trigger.PLAN, "default": "maybe"},
            "default",
            "must be approve or reject: the trigger plan has no other default answer",
        ),
        (
            {"trigger": Trigger.PLAN, "condition": Condition(confidence_below=1.5)},
            "condition.confidence_below",
            "must be above 0 and at most 1",
        ),
        (
            {"trigger": Trigger.PLAN, "condition": Condition(confidence_below=-0.5)},
            "condition.confidence_below",
            "must be above 0 and at most 1",
        ),
    ],
)
def test_a_rule_that_makes_no_sense_names_its_field(fields: dict[str, Any], field: str, mistake: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        InterceptionRule(**fields)
    assert [(each.field, each.description) for each in refused.value.field_violations] == [(field, mistake)]
    assert refused.value.message == f"{field}: {mistake}"


def test_all_mistakes_of_a_rule_are_named() -> None:
    with pytest.raises(InvalidArgument) as refused:
        InterceptionRule(Trigger.PLAN, timeout=-1.0, on_timeout=TimeoutPolicy.DEFAULT)
    assert refused.value.message == (
        "timeout: must be 0 to 2,592,000 seconds; default: is missing: with on_timeout default it is the answer"
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"trigger": Trigger.PLAN, "timeout": 0.0},
        {"trigger": Trigger.PLAN, "timeout": MAX_TIMEOUT},
        {"trigger": Trigger.PLAN, "condition": Condition(confidence_below=1.0, tenant="acme", cost_above=0.5)},
        {"trigger": Trigger.ERROR, "condition": Condition(step="s", severity_at_least=1)},
        {"trigger": Trigger.CHECKPOINT, "condition": Condition(step="s")},
        {"trigger": Trigger.REPLAN, "default": "reject", "on_timeout": TimeoutPolicy.DEFAULT},
        {"trigger": Trigger.TOOL, "default": "any text", "on_timeout": TimeoutPolicy.DEFAULT},
        {"trigger": Trigger.TOOL, "default": "x" * MAX_DEFAULT, "approvers": ("x",) * MAX_APPROVERS},
    ],
)
def test_a_rule_within_its_limits_is_accepted(fields: dict[str, Any]) -> None:
    assert InterceptionRule(**fields).terms.timeout == fields.get("timeout", 300.0)


def test_a_rule_is_named_by_its_trigger_unless_it_has_a_name() -> None:
    terms = InterceptionRule(Trigger.TOOL, approvers=("ann",), timeout=2.0, default="approve").terms
    assert terms == QuestionTerms("tool", ("ann",), 2.0, TimeoutPolicy.ABORT, "approve", Trigger.TOOL)
    assert rule(Trigger.PLAN, name="big").terms.rule == "big"


def test_a_rule_in_the_wrong_place_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"^trigger: plan does not belong here; allowed are tool, error$"):
        check_rules([rule(Trigger.TOOL, tool="x"), rule(Trigger.PLAN)], iter([Trigger.TOOL, Trigger.ERROR]))
    check_rules([rule(Trigger.PLAN)] * MAX_RULES, [Trigger.PLAN])
    with pytest.raises(InvalidArgument, match=r"^101 rules; at most 100 are allowed$"):
        check_rules([rule(Trigger.PLAN)] * (MAX_RULES + 1), [Trigger.PLAN])


def test_approvers_are_asked_in_turn_only_if_escalated() -> None:
    terms = QuestionTerms("r", ("ann", "bob"), 5.0, TimeoutPolicy.ESCALATE)
    assert (terms.asked_at(0), terms.asked_at(1)) == (("ann",), ("ann", "bob"))
    assert [terms.policy_after(level) for level in (0, 1)] == [TimeoutPolicy.ESCALATE, TimeoutPolicy.ABORT]
    anyone = QuestionTerms("r", ("ann", "bob"), 5.0, TimeoutPolicy.DEFAULT, "approve")
    assert (anyone.asked_at(0), anyone.policy_after(0)) == (("ann", "bob"), TimeoutPolicy.DEFAULT)
    assert QuestionTerms("r", ("ann",)).policy_after(0) is TimeoutPolicy.ABORT
    last = QuestionTerms("r", ("ann",), 5.0, TimeoutPolicy.ESCALATE, "approve")
    assert last.policy_after(0) is TimeoutPolicy.DEFAULT, "who was asked last is answered for"


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        *((text, Decision.APPROVE) for text in (" Yes. ", "approve", "Approved!", "y", "OK")),
        *((text, Decision.REJECT) for text in ("NO", "n", "reject", "rejected!")),
        *((text, Decision.UNSPECIFIED) for text in ("perhaps", "", "no, but", "!no")),
    ],
)
def test_a_plain_text_may_say_a_decision(text: str, decision: Decision) -> None:
    assert decision_of(text) is decision
