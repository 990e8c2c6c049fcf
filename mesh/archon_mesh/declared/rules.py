"""Loads the rules by which people are asked, from a YAML file or from the part of an agent's file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pydantic
from pydantic import Field

from archon.errors import InvalidArgument
from archon.failure_kinds import ErrorSeverity
from archon_mesh.core.people import Condition, InterceptionRule, TimeoutPolicy, Trigger, check_rules
from archon_mesh.core.people.rule import MAX_RULES
from archon_mesh.declared.document import Document, Key
from archon_mesh.declared.mistakes import mistakes
from archon_mesh.declared.part import Part
from archon_mesh.declared.rule_part import RulePart

_CONDITIONS: Final = (
    "role",
    "tool",
    "tenant",
    "step",
    "confidence_below",
    "severity_at_least",
    "cost_above",
)


class RulesFile(Part):
    """A file of rules."""

    rules: list[RulePart] = Field(max_length=MAX_RULES, description="the rules; of equal priority the first one asks")


def load_rules(
    path: Path | str, triggers: Iterable[Trigger], *, environment: Mapping[str, str] | None = None
) -> tuple[InterceptionRule, ...]:
    """Loads a file whose rules may have these triggers. Raises NotFound, and InvalidArgument with file, line and
    key."""
    document = Document(Path(path), dict(os.environ if environment is None else environment))
    try:
        declared = RulesFile.model_validate(document.value)
    except pydantic.ValidationError as error:
        raise document.errors(mistakes(document, error)) from None
    return rules_of(document, ("rules",), declared.rules, triggers)


def rules_of(
    document: Document, key: Key, parts: Sequence[RulePart], triggers: Iterable[Trigger]
) -> tuple[InterceptionRule, ...]:
    """Converts the rules at a key of a document. Raises InvalidArgument with file, line and key."""
    allowed = list(triggers)
    rules = []
    for index, part in enumerate(parts):
        try:
            rule = _rule(part)
            check_rules([rule], allowed)
        except InvalidArgument as error:
            field = error.field_violations[0].field if error.field_violations else "trigger"
            raise document.error((*key, index, field.removeprefix("condition.")), _why(error)) from None
        rules.append(rule)
    return tuple(rules)


def _rule(part: RulePart) -> InterceptionRule:
    values: dict[str, Any] = part.model_dump(include=set(_CONDITIONS))
    severity = values.pop("severity_at_least")
    condition = Condition(**values, severity_at_least=ErrorSeverity[severity.upper()] if severity else 0)
    return InterceptionRule(
        Trigger[part.trigger.upper()],
        condition,
        part.priority,
        part.name,
        tuple(part.approvers),
        part.timeout,
        TimeoutPolicy[part.on_timeout.upper()],
        part.default,
        part.message,
    )


def _why(error: InvalidArgument) -> str:
    return error.field_violations[0].description if error.field_violations else error.message.partition(": ")[2]
