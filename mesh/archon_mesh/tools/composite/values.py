"""Where the inputs of a node come from, and the conditions of branches: declarations, nothing is evaluated as code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from archon.errors import InvalidArgument


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()
"""There is no default: a missing value is an error."""

Operator = Literal["==", "!=", "<", "<=", ">", ">=", "in", "contains", "exists", "is_empty"]
OPERATORS: Final = ("==", "!=", "<", "<=", ">", ">=", "in", "contains", "exists", "is_empty")


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of the composite tool, or a part of it: `path` is `key.0.key`."""

    name: str
    path: str = ""
    default: Any = field(default=REQUIRED, kw_only=True)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of another node, or a part of it. The default stands in if the part is missing, or if the node was
    skipped or failed."""

    node: str
    path: str = ""
    default: Any = field(default=REQUIRED, kw_only=True)


@dataclass(frozen=True, slots=True)
class Item:
    """The current item of a node with `for_each`, or a part of it."""

    path: str = ""
    default: Any = field(default=REQUIRED, kw_only=True)


Reference = Argument | Result | Item


@dataclass(frozen=True, slots=True)
class When:
    """A condition: a value, an operator, and a value to compare with. Values that cannot be compared make the condition
    false. `exists` and `is_empty` compare with True or False."""

    value: Argument | Result
    operator: Operator
    operand: Any = True

    def __post_init__(self) -> None:
        if self.operator not in OPERATORS:
            raise InvalidArgument(f"unknown operator {self.operator!r}; expected one of {', '.join(OPERATORS)}")

    def holds(self, value: object, *, exists: bool) -> bool:
        """Tells whether the condition holds for a value, which may not exist."""
        if self.operator == "exists":
            return exists is bool(self.operand)
        if self.operator == "is_empty":
            return (not exists or value in (None, "", [], {})) is bool(self.operand)
        return exists and _compared(value, self.operator, self.operand)

    def __str__(self) -> str:
        return f"{shown(self.value)} {self.operator} {self.operand!r}"


class Missing(InvalidArgument):
    """A reference leads to no value."""


def at_path(value: Any, path: str, what: str) -> Any:
    """Returns the part of a JSON value. Raises Missing, which names the part that leads nowhere."""
    for step in path.split(".") if path else ():
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif _is_sequence(value) and step.isascii() and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            raise Missing(f"{what} has no value at {path!r}")
    return value


def references(value: object) -> Iterator[Reference]:
    """Yields the references in an input, which may be a list or mapping of them."""
    if isinstance(value, (Argument, Result, Item)):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from references(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from references(item)


def shown(value: object) -> str:
    """Returns a value as messages and diagrams show it."""
    match value:
        case Argument():
            return f"argument {value.name}" + (f".{value.path}" if value.path else "")
        case Result():
            return f"{value.node}" + (f".{value.path}" if value.path else "")
        case Item():
            return "item" + (f".{value.path}" if value.path else "")
    return repr(value)[:100]


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _compared(value: Any, operator: str, operand: Any) -> bool:
    try:
        match operator:
            case "==":
                return bool(value == operand)
            case "!=":
                return bool(value != operand)
            case "<":
                return bool(value < operand)
            case "<=":
                return bool(value <= operand)
            case ">":
                return bool(value > operand)
            case ">=":
                return bool(value >= operand)
            case "in":
                return value in operand
            case _:
                return operand in value
    except TypeError:
        return False
