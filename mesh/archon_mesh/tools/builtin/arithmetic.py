"""Evaluates arithmetic expressions by a grammar; nothing of an expression is executed as code.

expression = term {("+" | "-") term}
term       = unary {("*" | "/" | "//" | "%" | "mod" | "of") unary}
unary      = ("+" | "-") unary | power
power      = postfix [("^" | "**") unary]
postfix    = primary {"!" | "%"}                  "%" is a per cent sign unless an operand follows
primary    = number | constant | function "(" expression {"," expression} ")" | "(" expression ")"
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final

from archon.errors import InvalidArgument

Number = int | float

MAX_CHARS: Final = 1_000
MAX_DEPTH: Final = 50
"""Levels of nesting."""

MAX_BITS: Final = 4_096
"""Bits of a whole number."""

MAX_FACTORIAL: Final = 500

_TOKEN: Final = re.compile(
    r"\s*(?:(\d[\d_]*\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-z]\w*)|(\*\*|//|[-+*/%^!(),\u00d7\u00f7\u2212\u00b7]))"
)
_SIGNS: Final = {"\u00d7": "*", "\u00b7": "*", "\u00f7": "/", "\u2212": "-", "**": "^"}
"""Signs as people write them."""

_CONSTANTS: Final = {"pi": math.pi, "e": math.e, "tau": math.tau}
_FUNCTIONS: Final[dict[str, tuple[Callable[..., Number], range]]] = {
    "sqrt": (math.sqrt, range(1, 2)),
    "abs": (abs, range(1, 2)),
    "floor": (math.floor, range(1, 2)),
    "ceil": (math.ceil, range(1, 2)),
    "round": (lambda value, digits=0: round(value, int(digits)) if digits else round(value), range(1, 3)),
    "exp": (math.exp, range(1, 2)),
    "ln": (math.log, range(1, 2)),
    "log": (lambda value, base=10: math.log10(value) if base == 10 else math.log(value, base), range(1, 3)),
    "log2": (math.log2, range(1, 2)),
    "sin": (math.sin, range(1, 2)),
    "cos": (math.cos, range(1, 2)),
    "tan": (math.tan, range(1, 2)),
    "asin": (math.asin, range(1, 2)),
    "acos": (math.acos, range(1, 2)),
    "atan": (math.atan, range(1, 2)),
    "radians": (math.radians, range(1, 2)),
    "degrees": (math.degrees, range(1, 2)),
    "min": (min, range(2, 100)),
    "max": (max, range(2, 100)),
    "gcd": (lambda *values: math.gcd(*map(_whole, values)), range(2, 100)),
}


def evaluate(expression: str) -> Number:
    """Returns the value: a whole number if it is one, exact up to MAX_BITS. Angles are in radians.

    Raises InvalidArgument, which names the place, for anything but an expression that has a finite real value.
    """
    if len(expression) > MAX_CHARS:
        raise InvalidArgument(f"the expression has {len(expression):,} characters, at most {MAX_CHARS:,} are allowed")
    try:
        value = _Parser(_tokens(expression)).whole()
    except (ArithmeticError, ValueError) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(f"the expression has no value: {error}") from None
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def _tokens(expression: str) -> list[str]:
    tokens, position, text = [], 0, expression.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise InvalidArgument(f"invalid expression: {text[position:].strip()[:20]!r} is not expected here")
        token = match[match.lastindex or 0]
        tokens.append(_SIGNS.get(token, token))
        position = match.end()
    return tokens


class _Parser:
    """Recursive descent over the tokens."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._position = 0
        self._depth = 0

    def whole(self) -> Number:
        value = self._expression()
        if self._next:
            raise self._unexpected()
        return value

    @property
    def _next(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def _take(self, *expected: str) -> str:
        """Returns the next token and goes on, if it is one of these; else an empty text."""
        token = self._next
        if not token or token.lower() not in expected:
            return ""
        self._position += 1
        return token.lower()

    def _unexpected(self) -> InvalidArgument:
        found = repr(self._next) if self._next else "the end"
        return InvalidArgument(f"invalid expression: {found} is not expected after {self._before()}")

    def _before(self) -> str:
        return (
            repr(" ".join(self._tokens[max(0, self._position - 5) : self._position])) if self._position else "nothing"
        )

    def _expression(self) -> Number:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise InvalidArgument(f"invalid expression: nested more than {MAX_DEPTH} levels deep")
        value = self._term()
        while sign := self._take("+", "-"):
            right = self._term()
            value = _checked(value + right if sign == "+" else value - right)
        self._depth -= 1
        return value

    def _term(self) -> Number:
        value = self._unary()
        while sign := self._take("*", "/", "//", "%", "mod", "of"):
            value = _checked(_multiplied(value, sign, self._unary()))
        return value

    def _unary(self) -> Number:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise InvalidArgument(f"invalid expression: nested more than {MAX_DEPTH} levels deep")
        sign = self._take("+", "-")
        value = self._power() if not sign else -self._unary() if sign == "-" else self._unary()
        self._depth -= 1
        return value

    def _power(self) -> Number:
        base = self._postfix()
        return _power(base, self._unary()) if self._take("^") else base

    def _postfix(self) -> Number:
        value = self._primary()
        while True:
            if self._take("!"):
                value = _factorial(value)
            elif self._next == "%" and not self._operand_follows():
                self._position += 1
                value = value / 100
            else:
                return value

    def _operand_follows(self) -> bool:
        """Whether an operand stands after the next token. `of` does not count as one: 15 % of 200."""
        after = self._tokens[self._position + 1] if self._position + 1 < len(self._tokens) else ""
        return bool(after) and after.lower() not in ("of", "mod") and (after[0].isalnum() or after[0] in "(.")

    def _primary(self) -> Number:
        token = self._next
        if self._take("("):
            value = self._expression()
            self._close()
            return value
        if token and (token[0].isdigit() or token[0] == "."):
            self._position += 1
            return _number(token)
        name = token.lower()
        if name in _CONSTANTS:
            self._position += 1
            return _CONSTANTS[name]
        if name in _FUNCTIONS:
            self._position += 1
            return self._called(name)
        if token and token[0].isalpha():
            known = ", ".join([*_CONSTANTS, *_FUNCTIONS])
            raise InvalidArgument(f"invalid expression: unknown name {token!r}; there are {known}")
        raise self._unexpected()

    def _called(self, name: str) -> Number:
        if not self._take("("):
            raise self._unexpected()
        arguments = [self._expression()]
        while self._take(","):
            arguments.append(self._expression())
        self._close()
        function, counts = _FUNCTIONS[name]
        if len(arguments) not in counts:
            raise InvalidArgument(f"invalid expression: {name} takes {_described(counts)}, not {len(arguments)}")
        return _checked(function(*arguments))

    def _close(self) -> None:
        if not self._take(")"):
            raise self._unexpected()


def _described(counts: range) -> str:
    if len(counts) == 1:
        return f"{counts.start} argument"
    return f"{counts.start} to {counts.stop - 1} arguments"


def _number(token: str) -> Number:
    text = token.replace("_", "")
    return _checked(int(text) if text.isdigit() else float(text))


def _whole(value: Number) -> int:
    if isinstance(value, float) and not value.is_integer():
        raise InvalidArgument(f"the expression has no value: {value} is not a whole number")
    return int(value)


def _multiplied(left: Number, sign: str, right: Number) -> Number:
    match sign:
        case "*" | "of":
            return left * right
        case "//":
            return left // right
        case "%" | "mod":
            return left % right
    if isinstance(left, int) and isinstance(right, int) and right and left % right == 0:
        return left // right  # exact, also above 2**53
    return left / right


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and exponent >= 0:
        if abs(base) > 1 and exponent * abs(base).bit_length() > 2 * MAX_BITS:
            raise InvalidArgument(f"the expression has no value: {base}^{exponent} is too large")
        return _checked(base**exponent)
    value = float(base) ** exponent
    if isinstance(value, complex):
        raise InvalidArgument(f"the expression has no value: {base}^{exponent} is not real")
    return _checked(value)


def _factorial(value: Number) -> int:
    number = _whole(value)
    if not 0 <= number <= MAX_FACTORIAL:
        raise InvalidArgument(f"the expression has no value: {number}! (0 to {MAX_FACTORIAL} are allowed)")
    return math.factorial(number)


def _checked(value: Number) -> Number:
    if isinstance(value, int):
        if value.bit_length() > MAX_BITS:
            raise InvalidArgument(f"the expression has no value: a number has more than {MAX_BITS:,} bits")
    elif not math.isfinite(value):
        raise InvalidArgument("the expression has no value: a number is too large")
    return value
