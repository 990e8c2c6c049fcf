"""Arithmetic expressions in a text, such as `15 * 24` or `15% of 200`.

Repetitions have bounds, so that the time is linear in the length of any text.
"""

from __future__ import annotations

import re
from typing import Final

_NUMBER: Final = r"[-+(]{0,9}\d[\d.,]{0,30}(?:\s?%)?\){0,9}"
_OPERATOR: Final = (
    r"(?:\s{0,3}(?:\*\*|//|[*+^\u00d7\u00f7])\s{0,3}|\s{1,3}(?:[-/x%]|of|times|plus|minus|divided by)\s{1,3}|/)"
)
_SYMBOLS: Final = {
    "\u00d7": "*", "\u00f7": "/", " x ": " * ", "times": "*", "plus": "+", "minus": "-", "divided by": "/"
}  # fmt: skip

CLEAR_EXPRESSION: Final = re.compile(rf"(?<![\w./-]){_NUMBER}{_OPERATOR}{_NUMBER}(?![\w/-])")
"""An expression that can be nothing else: no date, range or number of a product."""

EXPRESSION: Final = re.compile(rf"(?<![\w./-]){_NUMBER}(?:(?:{_OPERATOR}|-){_NUMBER})+")
"""An expression in a text that must be calculated: `15-3` is one too."""


def expression_in(text: str) -> str:
    """Returns the first arithmetic expression in a text as a calculator reads it, or an empty text."""
    match = EXPRESSION.search(text)
    if match is None:
        return ""
    expression = match[0].rstrip(".,")
    for symbol, instead in _SYMBOLS.items():
        expression = expression.replace(symbol, instead)
    expression = re.sub(r"(?<=\d),(?=\d{3})", "", expression)
    return "" if "," in expression else expression + ")" * (expression.count("(") - expression.count(")"))
