"""Reads expressions of PromQL as far as a test needs it without Prometheus: tokens, brackets, selectors and labels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+)
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<duration>\d+(?:ms|[smhdwy])|\$__rate_interval)
      | (?P<number>\d+(?:\.\d+)?)
      | (?P<name>[a-zA-Z_][a-zA-Z0-9_]*)
      | (?P<operator>=~|!~|!=|==|>=|<=|[-+*/%^<>=(){}\[\],])""",
    re.VERBOSE,
)
_FUNCTIONS: Final = frozenset({"rate", "increase", "absent", "histogram_quantile", "min_over_time", "max_over_time"})
_AGGREGATIONS: Final = frozenset({"sum", "max", "min", "avg", "count"})
_GROUPINGS: Final = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_KEYWORDS: Final = frozenset({"and", "or", "unless", "bool", "offset"})
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_TARGET: Final = frozenset({"job", "instance"})
"""Labels that Prometheus adds to each series."""


class InvalidExpression(ValueError):
    """An expression is not PromQL, or names a metric or label that does not exist."""


@dataclass(slots=True)
class Expression:
    """The series that an expression selects with the labels of their matchers, and the labels that it groups by."""

    series: list[tuple[str, frozenset[str]]] = field(default_factory=list)
    groups: set[str] = field(default_factory=set)


def tokens(text: str) -> list[tuple[str, str]]:
    """Returns (kind, text) of each token. Raises InvalidExpression."""
    found, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise InvalidExpression(f"unexpected {text[position]!r} at {position}")
        if match.lastgroup != "space":
            found.append((match.lastgroup, match[0]))
        position = match.end()
    return found


def parse(text: str) -> Expression:
    """Returns what an expression selects. Raises InvalidExpression if a bracket is open, a function is unknown, or
    operators and operands do not alternate."""
    sequence = [*tokens(text), ("end", "")]
    expression, opened, index, needs_operand = Expression(), [""], 0, True
    while index < len(sequence) - 1:
        kind, token = sequence[index]
        follower = sequence[index + 1][1]
        index += 1
        if token in _GROUPINGS:
            index, labels = _labels(sequence, index)
            expression.groups |= labels
        elif (
            token in _AGGREGATIONS
            or token in _FUNCTIONS
            or (kind == "name" and follower == "(" and token not in _KEYWORDS)
        ):
            if token not in _AGGREGATIONS | _FUNCTIONS:
                raise InvalidExpression(f"unknown function {token}")
            if follower != "(" and follower not in _GROUPINGS:
                raise InvalidExpression(f"{token} has no argument")
        elif kind == "name" and token not in _KEYWORDS:
            _expect(needs_operand, f"an operator before {token}")
            index, labels = _matchers(sequence, index)
            expression.series.append((token, frozenset(labels)))
            needs_operand = False
        elif token in _CLOSING:
            _expect((token == "[") != needs_operand, f"no {token} here")
            opened.append(_CLOSING[token])
            needs_operand = True
        elif token in (")", "]"):
            _expect(opened.pop() == token and not needs_operand, f"no {token} here")
        elif kind in ("number", "duration", "string"):
            _expect(needs_operand, f"an operator before {token}")
            needs_operand = False
        else:
            _expect(not needs_operand, f"an operand before {token}")
            needs_operand = True
    _expect(opened == [""] and not needs_operand, "more at the end")
    return expression


def check(text: str, known: Mapping[str, frozenset[str]]) -> None:
    """Checks that the series of an expression and their labels are `known`. Raises InvalidExpression."""
    expression = parse(text)
    _expect(bool(expression.series), "a series")
    for name, labels in expression.series:
        if name not in known:
            raise InvalidExpression(f"no metric {name}")
        if unknown := labels - known[name] - _TARGET:
            raise InvalidExpression(f"{name} has no label {', '.join(sorted(unknown))}")
        if foreign := expression.groups - known[name] - _TARGET:
            raise InvalidExpression(f"{name} is grouped by {', '.join(sorted(foreign))}, which it does not have")


def _labels(sequence: list[tuple[str, str]], index: int) -> tuple[int, set[str]]:
    """Reads `(label, ...)`; returns the index after it and the labels."""
    _expect(sequence[index][1] == "(", "( after by, without, on or ignoring")
    labels = set()
    while sequence[index][1] != ")":
        kind, token = sequence[index + 1]
        _expect(kind == "name", f"a label instead of {token}")
        labels.add(token)
        index += 2
        _expect(sequence[index][1] in (",", ")"), "a comma between labels")
    return index + 1, labels


def _matchers(sequence: list[tuple[str, str]], index: int) -> tuple[int, set[str]]:
    """Reads `{label="value", ...}` if it is there; returns the index after it and the labels."""
    labels: set[str] = set()
    if sequence[index][1] != "{":
        return index, labels
    while sequence[index][1] != "}":
        (kind, label), (_, operator), (value_kind, _) = sequence[index + 1 : index + 4]
        _expect(
            kind == "name" and operator in ("=", "!=", "=~", "!~") and value_kind == "string",
            f"a matcher instead of {label}",
        )
        labels.add(label)
        index += 4
        _expect(sequence[index][1] in (",", "}"), "a comma between matchers")
    return index + 1, labels


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise InvalidExpression(f"expected {what}")
