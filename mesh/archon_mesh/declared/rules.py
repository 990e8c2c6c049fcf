"""Loads the rules by which people are asked, of the mesh and of an agent's file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import pydantic
from pydantic import Field

from archon.errors import InvalidArgument
from archon.failure_kinds import ErrorSeverity
from archon_mesh.core.people import Condition, InterceptionRule, TimeoutPolicy, Trigger
from archon_mesh.core.people.rule import MAX_RULES
from archon_mesh.declared.document import Document, Key
from archon_mesh.declared.mistakes import mistakes
from archon_mesh.declared.part import Part
from archon_mesh.declared.rule_part import RulePart, TermsPart, ToolRulePart

_CONDITIONS: Final = frozenset({"role", "tenant", "step", "confidence_below", "cost_above"})

P = TypeVar("P", bound=TermsPart)


class RulesFile(Part):
    """A file with the rules of a mesh."""

    rules: list[RulePart] = Field(max_length=MAX_RULES, description="the rules; of equal priority the first one asks")


def load_rules(path: Path | str, *, environment: Mapping[str, str] | None = None) -> tuple[InterceptionRule, ...]:
    """Loads the rules of a mesh. Raises NotFound, and InvalidArgument with file, line and key."""
    document = Document(Path(path), dict(os.environ if environment is None else environment))
    try:
        declared = RulesFile.model_validate(document.value)
    except pydantic.ValidationError as error:
        raise document.errors(mistakes(document, error)) from None
    return _rules(document, ("rules",), declared.rules, _mesh_rule)


def tool_rules(document: Document, key: Key, parts: Sequence[ToolRulePart]) -> tuple[InterceptionRule, ...]:
    """Returns the rules at a key of an agent's file. Raises InvalidArgument with file, line and key."""
    return _rules(document, key, parts, lambda part: _rule(Trigger.TOOL, Condition(tool=part.tool), part))


def _rules(
    document: Document, key: Key, parts: Sequence[P], convert: Callable[[P], InterceptionRule]
) -> tuple[InterceptionRule, ...]:
    rules = []
    for index, part in enumerate(parts):
        try:
            rules.append(convert(part))
        except InvalidArgument as error:
            violation = error.field_violations[0]
            field = violation.field.removeprefix("condition.")
            raise document.error((*key, index, field), violation.description) from None
    return tuple(rules)


def _mesh_rule(part: RulePart) -> InterceptionRule:
    severity = ErrorSeverity[part.severity_at_least.upper()] if part.severity_at_least else 0
    values: dict[str, Any] = part.model_dump(include=set(_CONDITIONS))
    return _rule(Trigger[part.trigger.upper()], Condition(**values, severity_at_least=severity), part)


def _rule(trigger: Trigger, condition: Condition, part: TermsPart) -> InterceptionRule:
    return InterceptionRule(
        trigger,
        condition,
        part.priority,
        part.name,
        tuple(part.approvers),
        part.timeout,
        TimeoutPolicy[part.on_timeout.upper()],
        part.default,
        part.message,
    )
