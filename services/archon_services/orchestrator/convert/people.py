"""Rules by which people are asked, and the terms of questions."""

from __future__ import annotations

from archon.api.agent.v1 import agent_pb2
from archon.api.common.v1 import common_pb2, failure_pb2, question_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.wire import set_seconds, to_seconds
from archon_mesh.core.people import (
    NO_TERMS,
    Breakpoint,
    BreakpointPoint,
    Condition,
    Decision,
    DefaultAnswer,
    InterceptionRule,
    QuestionKind,
    QuestionTerms,
    TimeoutPolicy,
    Trigger,
)
from archon_mesh.core.people.terms import MAX_APPROVERS, MAX_DEFAULT, MAX_TIMEOUT
from archon_mesh.engine.types import Payload, quantize

MAX_NAME = 256
"""Characters of an identity, and of the name of a rule."""


def kind_from_proto(number: int) -> QuestionKind:
    """Converts a kind; one that this version does not know reads as UNSPECIFIED."""
    return QuestionKind(number) if number in list(QuestionKind) else QuestionKind.UNSPECIFIED


def decision_from_proto(number: int) -> Decision:
    """Converts a decision; one that this version does not know reads as UNSPECIFIED."""
    return Decision(number) if number in list(Decision) else Decision.UNSPECIFIED


def terms_from_proto(source: question_pb2.QuestionTerms) -> QuestionTerms:
    """Converts terms; values of a policy or a trigger that this version does not know read as not set."""
    policy, trigger = int(source.on_timeout), int(source.trigger)
    return QuestionTerms(
        source.rule,
        tuple(source.approvers),
        quantize(to_seconds(source.timeout)),
        TimeoutPolicy(policy) if policy in list(TimeoutPolicy) and policy else TimeoutPolicy.ABORT,
        source.default_answer,
        Trigger(trigger) if trigger in list(Trigger) else Trigger.UNSPECIFIED,
    )


def agent_terms(request: agent_pb2.InputRequest) -> QuestionTerms:
    """Returns the terms that an agent sets for its question, within the limits for terms."""
    if not request.HasField("terms"):
        return NO_TERMS
    source = terms_from_proto(request.terms)
    return QuestionTerms(
        source.rule[:MAX_NAME],
        tuple(approver[:MAX_NAME] for approver in source.approvers[:MAX_APPROVERS]),
        min(max(0.0, source.timeout), MAX_TIMEOUT),
        source.on_timeout,
        source.default[:MAX_DEFAULT],
        source.trigger,
    )


def write_terms(terms: QuestionTerms, target: question_pb2.QuestionTerms) -> None:
    """Writes terms; leaves the message unset if they are NO_TERMS."""
    if terms == NO_TERMS:
        return
    target.SetInParent()
    target.rule, target.default_answer = terms.rule, terms.default
    target.approvers.extend(terms.approvers)
    target.on_timeout = question_pb2.TimeoutPolicy.ValueType(terms.on_timeout)
    target.trigger = question_pb2.Trigger.ValueType(terms.trigger)
    if terms.timeout:
        set_seconds(target.timeout, terms.timeout)


def rule_from_proto(source: run_pb2.InterceptionRule) -> InterceptionRule:
    """Converts a rule. Raises InvalidArgument if this version does not know it."""
    terms = terms_from_proto(source.terms)
    return InterceptionRule(
        Trigger(source.trigger),
        Condition(
            source.role,
            source.tool,
            source.tenant,
            source.step,
            source.confidence_below if source.HasField("confidence_below") else None,
            int(source.severity_at_least),
            source.cost_above if source.HasField("cost_above") else None,
        ),
        source.priority,
        terms.rule,
        terms.approvers,
        terms.timeout,
        TimeoutPolicy(terms.on_timeout),
        terms.default,
        source.message,
    )


def write_rule(rule: InterceptionRule, target: run_pb2.InterceptionRule) -> None:
    """Writes a rule."""
    condition = rule.condition
    target.trigger = question_pb2.Trigger.ValueType(rule.trigger)
    target.priority, target.message = rule.priority, rule.message
    write_terms(rule.terms, target.terms)
    target.terms.rule = rule.name
    target.role, target.tool, target.tenant = condition.role, condition.tool, condition.tenant
    target.step = condition.step
    target.severity_at_least = failure_pb2.Severity.ValueType(condition.severity_at_least)
    if condition.confidence_below is not None:
        target.confidence_below = condition.confidence_below
    if condition.cost_above is not None:
        target.cost_above = condition.cost_above


def breakpoint_from_proto(source: question_pb2.Breakpoint) -> Breakpoint:
    """Converts a breakpoint; a point that this version does not know reads as UNSPECIFIED."""
    point = int(source.point)
    return Breakpoint(
        BreakpointPoint(point) if point in list(BreakpointPoint) else BreakpointPoint.UNSPECIFIED, source.name
    )


def breakpoint_to_proto(source: Breakpoint) -> question_pb2.Breakpoint:
    """Converts a breakpoint."""
    return question_pb2.Breakpoint(point=question_pb2.BreakpointPoint.ValueType(source.point), name=source.name)


def given_from_payload(payload: Payload) -> run_pb2.InputGiven:
    """Returns the content of an answer, given by a person or by default."""
    match payload:
        case run_pb2.InputGiven():
            return payload
        case DefaultAnswer():
            parts = [common_pb2.Part(text=payload.text)] if payload.text else []
            decision = question_pb2.Decision.ValueType(payload.decision)
            return run_pb2.InputGiven(input_id=payload.input_id, parts=parts, decision=decision)
    return run_pb2.InputGiven()
