"""Breakpoints as people write them: `tool:NAME`, `model`, `model:ROLE`, `task:ROLE` or `step:NAME`."""

from __future__ import annotations

from typing import Final

from archon.errors import FieldViolation, InvalidArgument

POINTS: Final = ("tool", "model", "task", "step")
"""The points before which a run is held."""


def read_breakpoint(text: str) -> tuple[str, str]:
    """Returns the point and the name of a breakpoint. Raises InvalidArgument for any other text."""
    point, _, name = text.strip().partition(":")
    name = name.strip()
    if point not in POINTS or (not name and point != "model"):
        violation = FieldViolation("breakpoints", "expected tool:NAME, model, model:ROLE, task:ROLE or step:NAME")
        raise InvalidArgument(f"{text!r} is no breakpoint: {violation.description}", field_violations=[violation])
    return point, name


def write_breakpoint(point: str, name: str) -> str:
    """Returns a breakpoint as `read_breakpoint` reads it: POINT or POINT:NAME."""
    return f"{point}:{name}" if name else point
