"""How similar texts are, by their words."""

from __future__ import annotations

import re
from collections.abc import Set
from typing import Final

from archon_mesh.core.words import content_words, folded, stem, stems

DUPLICATE: Final = 0.85
"""Part of the stems of two texts that they share from which on one of them says nothing new."""

MAX_COMPARED: Final = 4_000
"""Characters of a text that are compared: comparing whole books would hold up the event loop."""

_NUMBER: Final = re.compile(r"\d[\d.,:]*")


def coverage(query_stems: Set[str], content: str) -> float:
    """Returns the part of the query's stems that the beginning of a text contains, from 0 to 1."""
    return len(query_stems & stems(content[:MAX_COMPARED])) / len(query_stems) if query_stems else 0.0


def query_stems(query: str) -> frozenset[str]:
    """Returns the stems of a query's content words."""
    return frozenset(map(stem, content_words(query)))


def is_duplicate(one: str, other: str) -> bool:
    """Whether two texts say the same: nearly the same stems, and the same numbers."""
    if max(len(one), len(other)) > MAX_COMPARED:
        return one == other
    if sorted(_NUMBER.findall(folded(one))) != sorted(_NUMBER.findall(folded(other))):
        return False
    left, right = stems(one), stems(other)
    union = left | right
    return not union or len(left & right) / len(union) >= DUPLICATE
