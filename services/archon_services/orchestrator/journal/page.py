"""Pages of rows that are read from a journal, bounded in bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

PAGE_BYTES: Final = 16 * 1024 * 1024
"""A page of steps or records ends with the row that reaches this size."""

OPENING_BYTES: Final = 64 * 1024
"""Bytes of the first step of a run that a search reads."""

T = TypeVar("T")


def page_of(rows: Sequence[T], max_bytes: int, size_of: Callable[[T], int]) -> list[T]:
    """Returns the first rows, up to the one that reaches `max_bytes`."""
    page: list[T] = []
    size = 0
    for row in rows:
        if size >= max_bytes:
            break
        page.append(row)
        size += size_of(row)
    return page
