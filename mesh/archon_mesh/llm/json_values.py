"""Values of decoded JSON in the types that they should have: servers send others, or null."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def text_of(value: object) -> str:
    """Returns a text; empty for anything else."""
    return value if isinstance(value, str) else ""


def id_of(value: object) -> str:
    """Returns an id, which some servers send as a number; empty for anything else."""
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""


def count_of(value: object) -> int:
    """Returns a count; 0 for anything else."""
    return int(value) if isinstance(value, (int, float)) and value >= 0 else 0


def object_of(value: object) -> Mapping[str, Any]:
    """Returns an object; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def json_text_of(value: object) -> str:
    """Returns the arguments of a tool call as JSON text: some servers send the value itself. Empty for null."""
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def in_order(values: Mapping[object, T]) -> list[T]:
    """Returns values in the order of their keys, as far as these are numbers; the others stay where they are."""
    return [value for _, value in sorted(values.items(), key=lambda each: each[0] if isinstance(each[0], int) else 0)]
