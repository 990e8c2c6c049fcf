"""Names of the values of enums."""

from __future__ import annotations

from typing import Any


def enum_name(enum: Any, prefix: str, number: int) -> str:
    """Returns the name of a value in lower case and without its prefix; empty if it is unset, or unknown to this
    version."""
    if not number or number not in enum.values():
        return ""
    name: str = enum.Name(number)
    return name.removeprefix(prefix).lower()
