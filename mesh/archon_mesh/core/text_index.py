"""A text index in memory: ranks documents by how well their fields fit a query.

The ranking is BM25F (Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009): a rare
term counts more than a common one, a term's count saturates, and of two documents with the same terms the shorter one
is better.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from archon_mesh.core.arithmetic import CLEAR_EXPRESSION
from archon_mesh.core.words import FUNCTION_WORDS, stem, words

SATURATION: Final = 1.2
"""BM25's k1: how soon further occurrences of a term stop to count."""

LENGTH: Final = 0.35
"""BM25's b: how much a long document loses; 0 to 1."""

MAX_TEXT: Final = 4_000
"""Characters of a text that are read."""

MIN_ALIKE: Final = 4
"""Letters that two terms have in common at least, if one is a form of the other."""

MAX_DIFFERENCE: Final = 3
"""Letters that one of them has more at most."""

ARITHMETIC: Final = "<arithmetic>"
"""The term of a text that has an arithmetic expression, as `15 * 24` or `(3 + 4) ** 5`."""

QUESTION: Final = "<question>"
"""The term of a text that is a question."""

SHAPE_WEIGHT: Final = {ARITHMETIC: 4.0, QUESTION: 0.5}
"""The fraction of a word that such a term counts as: an expression tells much, a question little."""

_QUESTION: Final = re.compile(
    r"\s{0,9}(?:who|whose|whom|what|when|where|which|how (?:many|much|old|far|long|big|tall))\b", re.I
)


@dataclass(frozen=True, slots=True)
class Field:
    """A text of a document. The terms of a field of weight 2 count as if they stood there twice."""

    text: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Match:
    """A document that fits, its score, and the words of the query that it has, the most telling first."""

    name: str
    score: float
    words: tuple[str, ...]


class TextIndex:
    """Documents by name, each of some fields."""

    def __init__(self, documents: Mapping[str, Sequence[Field]]) -> None:
        self._counts = {name: _weighted_counts(fields) for name, fields in documents.items()}
        self._lengths = {name: sum(counts.values()) for name, counts in self._counts.items()}
        self._mean = sum(self._lengths.values()) / len(documents) if documents else 0.0
        self._holders = Counter(term for counts in self._counts.values() for term in counts)

    def search(self, query: str) -> list[Match]:
        """Returns the documents that have a term of the query: the best first, of equals the shortest, then by name."""
        wanted = {self._known(term): word for term, word in reversed(_terms(query).items())}
        matches = [match for name in self._counts if (match := self._match(name, wanted)) is not None]
        return sorted(matches, key=lambda match: (-match.score, self._lengths[match.name], match.name))

    def _match(self, name: str, wanted: Mapping[str, str]) -> Match | None:
        scores = {term: self._score(name, term) for term in wanted if term in self._counts[name]}
        if not scores:
            return None
        telling = sorted(scores, key=lambda term: -scores[term])
        return Match(name, sum(scores.values()), tuple(wanted[term] for term in telling))

    def _known(self, term: str) -> str:
        """Returns the term; if no document has it, one that begins alike, as `deliver` and `deliveri` do."""
        if term in self._holders or len(term) < MIN_ALIKE:
            return term
        alike = [
            each
            for each in self._holders
            if len(each) >= MIN_ALIKE
            and abs(len(each) - len(term)) <= MAX_DIFFERENCE
            and (each.startswith(term) or term.startswith(each))
        ]
        return min(alike, key=lambda each: (abs(len(each) - len(term)), each), default=term)

    def _score(self, name: str, term: str) -> float:
        count, holders = self._counts[name][term], self._holders[term]
        rarity = math.log(1 + (len(self._counts) - holders + 0.5) / (holders + 0.5))
        relative_length = self._lengths[name] / self._mean
        return rarity * count * (SATURATION + 1) / (count + SATURATION * (1 - LENGTH + LENGTH * relative_length))


def _weighted_counts(fields: Sequence[Field]) -> dict[str, float]:
    counts: dict[str, float] = {}
    for field in fields:
        for term in (*map(stem, _topic(field.text)), *_shapes(field.text)):
            counts[term] = counts.get(term, 0.0) + field.weight * SHAPE_WEIGHT.get(term, 1.0)
    return counts


def _terms(query: str) -> dict[str, str]:
    """Returns the terms of a query, each with the word that has it."""
    return {stem(word): word for word in reversed(_topic(query))} | _shapes(query)


def _topic(text: str) -> list[str]:
    return [word for word in words(text[:MAX_TEXT]) if word not in FUNCTION_WORDS and not word.isdigit()]


def _shapes(text: str) -> dict[str, str]:
    """Returns the terms for the kinds that a text looks like, each with its name."""
    shapes = {}
    if CLEAR_EXPRESSION.search(text[:MAX_TEXT]):
        shapes[ARITHMETIC] = "arithmetic"
    if _QUESTION.match(text):
        shapes[QUESTION] = "a question"
    return shapes
