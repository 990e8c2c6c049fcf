"""Versions of roles: dotted numbers, compared by their numbers."""

from __future__ import annotations


def version_key(version: str) -> tuple[int, ...]:
    """1.10 is newer than 1.9, and 1.0 is 1."""
    numbers = [int(part) for part in version.split(".") if part.isdigit()]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def version_fits(version: str, wanted: str) -> bool:
    """Whether a version is the one wanted or, where that ends in `.*`, begins like it. Empty: any fits; a version that
    isn't given fits nothing else."""
    if not wanted:
        return True
    if not version:
        return False
    if not wanted.endswith(".*"):
        return version_key(version) == version_key(wanted)
    head = [int(part) for part in wanted.removesuffix(".*").split(".")]
    return (list(version_key(version)) + [0] * len(head))[: len(head)] == head
