"""Errors about the arguments of tools."""

from __future__ import annotations

from collections.abc import Sequence

from archon.errors import FieldViolation, InvalidArgument
from archon.failure_kinds import INVALID_PARAMETERS


def invalid_arguments(tool_name: str, violations: Sequence[FieldViolation]) -> InvalidArgument:
    """Returns the error for a call with invalid arguments."""
    details = "; ".join(f"{violation.field}: {violation.description}" for violation in violations)
    message = f"invalid arguments for tool {tool_name}: {details}"
    return InvalidArgument(message, field_violations=violations, kind=INVALID_PARAMETERS)
