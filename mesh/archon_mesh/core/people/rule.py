"""Rules by which a person is asked before something happens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final

from archon.errors import FieldViolation, InvalidArgument
from archon_mesh.core.people.terms import (
    APPROVE,
    DEFAULT_TIMEOUT,
    REJECT,
    QuestionTerms,
    TimeoutPolicy,
    Trigger,
    terms_mistakes,
)
from archon_mesh.core.value import value

MAX_RULES: Final = 100

_PLANS: Final = (Trigger.PLAN, Trigger.REPLAN, Trigger.CONFIDENCE)
_TASKS: Final = (Trigger.CHECKPOINT, Trigger.ERROR)
_MESH: Final = (*_PLANS, *_TASKS)
_FIELDS: Final = {
    "tool": (Trigger.TOOL,),
    "step": _TASKS,
    "confidence_below": _PLANS,
    "severity_at_least": (Trigger.ERROR,),
    "tenant": _MESH,
    "cost_above": _MESH,
}
"""Fields of a condition that only some triggers have."""


@value
class Condition:
    """When a rule applies: if all fields that are set match.

    `role`, `tool`, `tenant` and `step` are patterns, as in a shell. `confidence_below` is compared with the confidence
    of the planner in the least certain step of a plan, `severity_at_least` with a failure's severity. `cost_above` is
    in US dollars: of a plan the planner's estimate, else the attempt's spending.
    """

    role: str = ""
    tool: str = ""
    tenant: str = ""
    step: str = ""
    confidence_below: float | None = None
    severity_at_least: int = 0
    cost_above: float | None = None


ANY: Final = Condition()


@value
class Situation:
    """The values that a rule is matched with. `cost` is in US dollars; `marked` says that a tool is dangerous, or that
    a step is a checkpoint of its plan."""

    trigger: Trigger
    role: str = ""
    tool: str = ""
    tenant: str = ""
    step: str = ""
    confidence: float = 1.0
    severity: int = 0
    cost: float = 0.0
    marked: bool = False


@value
class InterceptionRule:
    """Has a person asked at the `trigger`, if the `condition` holds.

    Of several rules that match, the one with the highest `priority` asks, of equals the first. A rule for tools without
    `condition.tool` applies to dangerous tools; a rule for checkpoints without `condition.step` and `condition.role` to
    the steps that their plan marks. `timeout` is in seconds, for each approver under an escalating policy. `message` is
    the text of the question; by default it describes the subject.

    Raises InvalidArgument if a field is out of range or has no meaning for the trigger.
    """

    trigger: Trigger
    condition: Condition = ANY
    priority: int = 0
    name: str = ""
    approvers: tuple[str, ...] = ()
    timeout: float = DEFAULT_TIMEOUT
    on_timeout: TimeoutPolicy = TimeoutPolicy.ABORT
    default: str = ""
    message: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "trigger", Trigger(self.trigger))
        object.__setattr__(self, "on_timeout", TimeoutPolicy(self.on_timeout))
        object.__setattr__(self, "approvers", tuple(self.approvers))
        object.__setattr__(self, "timeout", round(self.timeout, 6))  # the precision of the journal
        if mistakes := list(_mistakes(self)):
            raise InvalidArgument(
                "; ".join(f"{field}: {mistake}" for field, mistake in mistakes),
                field_violations=[FieldViolation(field, mistake) for field, mistake in mistakes],
            )

    @property
    def terms(self) -> QuestionTerms:
        """The terms of the question that the rule asks: approvers, time limit, and the outcome after it."""
        name = self.name or self.trigger.name.lower()
        return QuestionTerms(name, self.approvers, self.timeout, self.on_timeout, self.default, self.trigger)

    def matches(self, situation: Situation) -> bool:
        """Returns whether the rule applies."""
        condition = self.condition
        if self.trigger is not situation.trigger or not self._is_meant(situation):
            return False
        patterns = (
            (condition.role, situation.role),
            (condition.tool, situation.tool),
            (condition.tenant, situation.tenant),
            (condition.step, situation.step),
        )
        if not all(not pattern or fnmatchcase(name, pattern) for pattern, name in patterns):
            return False
        if condition.confidence_below is not None and situation.confidence >= condition.confidence_below:
            return False
        if situation.severity < condition.severity_at_least:
            return False
        return condition.cost_above is None or situation.cost > condition.cost_above

    def _is_meant(self, situation: Situation) -> bool:
        """Whether the rule names the subject, or needs no name because it is marked."""
        if self.trigger is Trigger.TOOL:
            return bool(self.condition.tool) or situation.marked
        if self.trigger is Trigger.CHECKPOINT:
            return bool(self.condition.step or self.condition.role) or situation.marked
        return True


def rule_for(rules: Iterable[InterceptionRule], situation: Situation) -> InterceptionRule | None:
    """Returns the rule that asks: of those that match, the first with the highest priority."""
    return max((rule for rule in rules if rule.matches(situation)), key=lambda rule: rule.priority, default=None)


def check_rules(rules: Sequence[InterceptionRule], triggers: Iterable[Trigger]) -> None:
    """Raises InvalidArgument if there are too many rules, or one has another trigger than these."""
    if len(rules) > MAX_RULES:
        raise InvalidArgument(f"{len(rules)} rules; at most {MAX_RULES} are allowed")
    allowed = list(triggers)
    for rule in rules:
        if rule.trigger not in allowed:
            names = ", ".join(trigger.name.lower() for trigger in allowed)
            raise InvalidArgument(f"trigger: {rule.trigger.name.lower()} does not belong here; allowed are {names}")


def _mistakes(rule: InterceptionRule) -> Iterable[tuple[str, str]]:
    condition, name = rule.condition, rule.trigger.name.lower()
    if rule.trigger is Trigger.UNSPECIFIED:
        yield "trigger", "is missing"
    if rule.trigger is Trigger.BREAKPOINT:
        yield "trigger", "breakpoint belongs to breakpoints, not to rules"
    yield from terms_mistakes(QuestionTerms("", rule.approvers, rule.timeout, rule.on_timeout, rule.default))
    for field, triggers in _FIELDS.items():
        if getattr(condition, field) not in (None, "", 0) and rule.trigger not in triggers:
            yield f"condition.{field}", f"has no meaning for the trigger {name}"
    if condition.confidence_below is not None and not 0 < condition.confidence_below <= 1:
        yield "condition.confidence_below", "must be above 0 and at most 1"
    if rule.trigger is Trigger.CONFIDENCE and condition.confidence_below is None:
        yield "condition.confidence_below", "is missing: the trigger confidence needs it"
    if rule.trigger is Trigger.ERROR and not condition.severity_at_least:
        yield "condition.severity_at_least", "is missing: the trigger error needs it"
    if rule.trigger is not Trigger.TOOL and rule.default not in ("", APPROVE, REJECT):
        yield "default", f"must be {APPROVE} or {REJECT}: the trigger {name} has no other default answer"
