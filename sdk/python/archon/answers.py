"""Compares answers: which of them say the same."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, TypeGuard

from archon.json_text import json_object

TOLERANCE: Final = 0.05
"""The difference of two numbers, as a part of the larger one, up to which they are the same answer."""

MAX_COMPARED: Final = 100_000
"""Characters of an answer that are compared."""

_NUMBER: Final = re.compile(
    r"(?P<before>[$€£¥]?)\s*(?P<sign>[-+\u2212]?)\s*(?P<before2>[$€£¥]?)"
    r"(?P<digits>[0-9]{1,3}(?:[, _][0-9]{3})+|[0-9]{1,30})(?P<rest>\.[0-9]{1,30})?(?P<power>[eE][-+]?[0-9]{1,3})?"
    r"\s*(?P<unit>%|[^\W\d_]{0,20})"
)
_AROUND: Final = " \t\r\n.!;:,\"'`*_"


def field_of(text: str, field: str) -> str:
    """Returns the text of a field of a JSON object; the whole text if there is no such object or field."""
    if not field:
        return text
    data = json_object(text)
    if data is None or field not in data:
        return text
    value = data[field]
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)


def confidence_of(text: str) -> float:
    """Returns the `confidence` in a JSON object, from 0 to 1; 1 if it has none."""
    value = (json_object(text) or {}).get("confidence")
    return min(1.0, max(0.0, float(value))) if is_number(value) else 1.0


def states_confidence(text: str) -> bool:
    """Returns whether a JSON object has a `confidence` that is a number."""
    return is_number((json_object(text) or {}).get("confidence"))


def is_number(value: Any) -> TypeGuard[float]:
    """Returns whether a JSON value is a finite number; true and false are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def supports(answers: Sequence[str], weights: Sequence[float]) -> list[float]:
    """Returns, for each answer, the weight of all answers that say the same.

    Numbers with one unit agree within TOLERANCE, the limit included, so that an answer may agree with two that do not
    agree with each other. JSON values agree if they are equal, texts if they are equal but for case, white space,
    and punctuation or emphasis around them.
    """
    keys = [_key(answer[:MAX_COMPARED]) for answer in answers]
    equal: defaultdict[str, float] = defaultdict(float)
    numbers: dict[str, list[tuple[float, float]]] = {}
    for key, weight in zip(keys, weights, strict=True):
        if isinstance(key, str):
            equal[key] += weight
        else:
            numbers.setdefault(key[1], []).append((key[0], weight))
    near = {unit: _Near(pairs) for unit, pairs in numbers.items()}
    return [equal[key] if isinstance(key, str) else near[key[1]].weight(key[0]) for key in keys]


def agree(one: str, other: str) -> bool:
    """Returns whether two answers say the same."""
    return supports([one, other], [1.0, 1.0])[0] > 1.0


class _Near:
    """The weights of numbers, summed over those that are close to one."""

    def __init__(self, pairs: Sequence[tuple[float, float]]) -> None:
        ordered = sorted(pairs)
        self._values = [value for value, _ in ordered]
        self._sums = [0.0, *accumulate(weight for _, weight in ordered)]

    def weight(self, value: float) -> float:
        nearer, further = value * (1 - TOLERANCE), value / (1 - TOLERANCE)
        slack = abs(value) * 1e-9  # so that rounding does not exclude the limit
        low, high = min(nearer, further) - slack, max(nearer, further) + slack
        first, last = bisect_left(self._values, low), bisect_right(self._values, high)
        return self._sums[last] - self._sums[first]


def _key(answer: str) -> str | tuple[float, str]:
    """A number with its unit, or a text that is equal for answers that say the same."""
    text = " ".join(answer.strip(_AROUND).split())
    match = _NUMBER.fullmatch(text)
    if match is not None:
        digits = re.sub("[, _]", "", match["digits"])
        sign = "-" if match["sign"] in ("-", "\u2212") else ""
        number = float(f"{sign}{digits}{match['rest'] or ''}{match['power'] or ''}")
        if math.isfinite(number):
            return number, f"{match['before'] or match['before2']}{match['unit'].casefold()}"
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        return text.casefold()
    return json.dumps(value, sort_keys=True, ensure_ascii=False) if isinstance(value, (dict, list)) else text.casefold()


def weight_of(name: str, role: str, weights: Mapping[str, float]) -> float:
    """Returns the weight that is given to a step, or else to its role; 1 if none is."""
    return weights.get(name, weights.get(role, 1.0))
