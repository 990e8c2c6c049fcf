"""Splits a query into its aspects, which are searched for one by one."""

from __future__ import annotations

import re
from typing import Final

from archon_mesh.core.words import FUNCTION_WORDS, words

MAX_ASPECTS: Final = 4
"""Searches of one query, the one for the whole query included."""

_SEPARATOR: Final = re.compile(r"[.?!;\n]+\s*|,\s+(?:and\s+)?|\s+and\s+")


def aspects(query: str) -> list[str]:
    """Returns the query, then its sentences and clauses if there are several with at least two topical words."""
    parts = [part.strip() for part in _SEPARATOR.split(query)]
    topical = [part for part in parts if len(set(words(part)) - FUNCTION_WORDS) >= 2]
    return [query, *topical[: MAX_ASPECTS - 1]] if len(topical) > 1 else [query]
