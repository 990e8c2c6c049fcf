"""Versions of roles: dotted numbers, compared numerically."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=4096)
def version_key(version: str) -> tuple[int, ...]:
    """Returns a sort key: 1.10 is newer than 1.9, and 1.0 equals 1."""
    numbers = [int(part) for part in version.split(".") if part.isdigit()]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def version_matches(version: str, pattern: str) -> bool:
    """Whether a version equals `pattern` or, if that ends in `.*`, begins with its numbers. An empty pattern matches
    any version; an empty version matches only the empty pattern."""
    if not pattern:
        return True
    if not version:
        return False
    if not pattern.endswith(".*"):
        return version_key(version) == version_key(pattern)
    prefix = [int(part) for part in pattern.removesuffix(".*").split(".")]
    return (list(version_key(version)) + [0] * len(prefix))[: len(prefix)] == prefix
