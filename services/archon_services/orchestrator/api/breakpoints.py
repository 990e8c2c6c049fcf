"""Checks of requests that set breakpoints: callers that may pause runs may."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from archon import context
from archon.api.common.v1 import question_pb2
from archon.errors import InvalidArgument
from archon.security.policy import Policy, check_allowed
from archon_mesh.core.people import Breakpoint, breakpoint_mistakes
from archon_services.orchestrator.convert.people import breakpoint_from_proto

PAUSE: Final = "/archon.api.orchestrator.v1.OrchestratorService/PauseRun"
"""The RPC that a caller who sets breakpoints has to be allowed."""


def requested_breakpoints(breakpoints: Iterable[question_pb2.Breakpoint], policy: Policy) -> tuple[Breakpoint, ...]:
    """Returns the breakpoints of a request, each once. Raises PermissionDenied if the caller may not pause runs,
    InvalidArgument if a point is unknown or lacks its name, or there are too many."""
    found = tuple(dict.fromkeys(map(breakpoint_from_proto, breakpoints)))
    if (principal := context.current().principal) is not None:
        check_allowed(PAUSE, principal, policy)
    if violations := list(breakpoint_mistakes(found)):
        message = "; ".join(f"{violation.field}: {violation.description}" for violation in violations)
        raise InvalidArgument(message, field_violations=violations)
    return found
