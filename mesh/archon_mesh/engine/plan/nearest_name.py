"""Finds the name that a planner most likely meant."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

MAX_DISTANCE: Final = 2
"""Characters by which a name may differ; a third of a short one."""

MAX_NAME: Final = 100
"""Characters of a name that is compared."""


def nearest_name(name: str, names: Collection[str]) -> str | None:
    """Returns the only name that is close, or None: the same one but for case or namespace, or else the one with the
    smallest edit distance."""
    wanted = _folded(name)
    if not wanted or len(wanted) > MAX_NAME:
        return None
    limit = min(MAX_DISTANCE, len(wanted) // 3)
    distances: dict[str, int] = {}
    for known in names:
        folded = _folded(known)
        if folded == wanted or folded.endswith(f".{wanted}") or wanted.endswith(f".{folded}"):
            distances[known] = 0
        elif abs(len(folded) - len(wanted)) <= limit:
            distances[known] = _distance(wanted, folded)
    close = min(distances.values(), default=limit + 1)
    nearest = [known for known, distance in distances.items() if distance == close]
    return nearest[0] if close <= limit and len(nearest) == 1 else None


def _folded(name: str) -> str:
    return name.strip().casefold().replace("-", "_").replace(" ", "_")


def _distance(left: str, right: str) -> int:
    """Returns the number of characters to insert, delete or replace (Levenshtein, 1966)."""
    row = list(range(len(right) + 1))
    for index, char in enumerate(left, start=1):
        diagonal, row[0] = row[0], index
        for column, other in enumerate(right, start=1):
            diagonal, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, diagonal + (char != other))
    return row[-1]
