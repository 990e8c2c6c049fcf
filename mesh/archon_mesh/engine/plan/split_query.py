"""Splits a query into steps by rules of text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from archon_mesh.core.arithmetic import EXPRESSION
from archon_mesh.core.sentences import split_sentences
from archon_mesh.core.words import ORDER_WORDS, QUESTION_WORDS, words
from archon_mesh.engine.plan.faults import MAX_SUBTASKS

_NEAR: Final = 200
_JOIN: Final = re.compile(r"\s{0,5}(?:[,;]?\s{0,5}\b(?:and\s{1,5}then|then|and)\b|;),?\s{0,5}", re.I)
_CONDITION: Final = re.compile(r"\s*(?:if|when|once|unless)\b", re.I)
_BACKWARD: Final = re.compile(
    r"\b(?:it|its|them|their|that|this|these|those|the (?:results?|answers?|sum|total|number|\w+ ones?))\b", re.I
)
_FILLERS: Final = frozenset({"please", "also", "first", "next", "finally"})


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a query. It needs the results of the parts that `after` has the positions of."""

    text: str
    after: tuple[int, ...] = ()


def split_query(query: str) -> list[Step]:
    """Splits a query into steps: at the items of a list, at sentences, at ";", at "then", and at "and" if both of its
    sides are steps. Steps after a "then", items of a list, and steps that refer back need the result before them. The
    text after MAX_SUBTASKS steps is part of the last one."""
    steps: list[Step] = []
    for sentence in split_sentences(query):
        for text, is_next in _clauses(sentence.text):
            needs = bool(steps) and (is_next or sentence.is_item or _BACKWARD.search(text))
            steps.append(Step(text, (len(steps) - 1,) if needs else ()))
    kept, rest = steps[: MAX_SUBTASKS - 1], steps[MAX_SUBTASKS - 1 :]
    return [*kept, Step(" ".join(step.text for step in rest), (len(kept) - 1,))] if len(rest) > 1 else steps


def _clauses(sentence: str) -> Iterator[tuple[str, bool]]:
    """Yields the clauses of a sentence, and whether each comes after the one before it."""
    start, is_next, end = 0, False, len(sentence.rstrip(" .!?"))
    for match in _JOIN.finditer(sentence):
        # Only a few characters on each side: a query may be one long sentence.
        head = sentence[start : min(start + _NEAR, match.start())]
        tail = sentence[max(start, match.start() - _NEAR) : match.start()]
        right = sentence[match.end() : match.end() + _NEAR]
        join = match[0].strip().removesuffix(",").lower()
        if tail.strip(" ,;") and match.end() < end and _are_steps(head, tail, right, join):
            yield sentence[start : match.start()].strip(" ,;"), is_next
            start, is_next = match.end(), "then" in join
    if last := sentence[start:].strip(" ,;").rstrip(".!"):
        yield last, is_next


def _are_steps(head: str, tail: str, right: str, join: str) -> bool:
    """Tells whether a word joins two steps, and not two nouns: a verb after it says so, or arithmetic beside it."""
    if "then" in join and _CONDITION.match(head):
        return False
    if join not in ("then", "and", ", and") or EXPRESSION.search(tail) or EXPRESSION.match(right):
        return True
    return _is_step(right) and (join == "then" or _is_step(head))


def _is_step(text: str) -> bool:
    """Tells whether a text begins as an order or a question does."""
    first = next((word for word in words(text) if word not in _FILLERS), "")
    return first in ORDER_WORDS or first in QUESTION_WORDS
