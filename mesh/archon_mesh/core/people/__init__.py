"""People in the loop: the rules by which a person is asked, and the terms of a question."""

from archon_mesh.core.people.breakpoint import (
    CALLS,
    Breakpoint,
    BreakpointPoint,
    breakpoint_mistakes,
    find_breakpoint,
    parse_breakpoint,
)
from archon_mesh.core.people.rule import Condition, InterceptionRule, Situation, check_rules, rule_for
from archon_mesh.core.people.terms import (
    APPROVE,
    DEFAULT_TIMEOUT,
    NO_TERMS,
    REJECT,
    Decision,
    DefaultAnswer,
    QuestionKind,
    QuestionState,
    QuestionTerms,
    TimeoutPolicy,
    Trigger,
    decision_of,
)

__all__ = [
    "APPROVE",
    "CALLS",
    "DEFAULT_TIMEOUT",
    "NO_TERMS",
    "REJECT",
    "Breakpoint",
    "BreakpointPoint",
    "Condition",
    "Decision",
    "DefaultAnswer",
    "InterceptionRule",
    "QuestionKind",
    "QuestionState",
    "QuestionTerms",
    "Situation",
    "TimeoutPolicy",
    "Trigger",
    "breakpoint_mistakes",
    "check_rules",
    "decision_of",
    "find_breakpoint",
    "parse_breakpoint",
    "rule_for",
]
