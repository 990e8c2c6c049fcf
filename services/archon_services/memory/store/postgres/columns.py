"""Rows as column arrays, the form in which `unnest` takes a group of rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def columns(rows: Iterable[tuple[Any, ...]], width: int) -> list[list[Any]]:
    """Transposes rows of `width` values."""
    listed = list(rows)
    return [list(column) for column in zip(*listed, strict=True)] if listed else [[] for _ in range(width)]
