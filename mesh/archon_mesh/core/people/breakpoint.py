"""Breakpoints: the points before which a run is held until a person lets it go on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from fnmatch import fnmatchcase
from typing import Final

from archon.breakpoint_text import read_breakpoint, write_breakpoint
from archon.errors import FieldViolation
from archon_mesh.core.people.terms import QuestionTerms, Trigger
from archon_mesh.core.value import value

MAX_BREAKPOINTS: Final = 20

MAX_NAME: Final = 256
"""Characters of the name of a breakpoint."""


class BreakpointPoint(IntEnum):
    """The point before which a breakpoint holds, with the numbers of the contract's BreakpointPoint."""

    UNSPECIFIED = 0
    TOOL = 1
    MODEL = 2
    TASK = 3
    STEP = 4


CALLS: Final = (BreakpointPoint.TOOL, BreakpointPoint.MODEL)
"""The points at which the runtime of an agent holds; at the others the orchestrator does."""


@value
class Breakpoint:
    """A breakpoint. `name` is a pattern, as in a shell: of a tool, a role or a step; of a MODEL the role that calls it,
    empty for any."""

    point: BreakpointPoint
    name: str = ""

    def __str__(self) -> str:
        return write_breakpoint(self.point.name.lower(), self.name)

    @property
    def terms(self) -> QuestionTerms:
        """The terms of the question: anyone may answer, in any time."""
        return QuestionTerms(f"breakpoint {self}", trigger=Trigger.BREAKPOINT)

    def matches(self, point: BreakpointPoint, name: str) -> bool:
        """Returns whether it holds before this point. `name` as in the breakpoint, without a pattern."""
        return self.point is point and (not self.name or fnmatchcase(name, self.name))


def find_breakpoint(breakpoints: Iterable[Breakpoint], point: BreakpointPoint, name: str) -> Breakpoint | None:
    """Returns the first breakpoint that holds before a point; None if there is none."""
    return next((each for each in breakpoints if each.matches(point, name)), None)


def parse_breakpoint(text: str) -> Breakpoint:
    """Reads a breakpoint as people write it. Raises InvalidArgument if it is something else."""
    point, name = read_breakpoint(text)
    return Breakpoint(BreakpointPoint[point.upper()], name)


def breakpoint_mistakes(breakpoints: Sequence[Breakpoint]) -> Iterator[FieldViolation]:
    """Yields a violation for each invalid field, named as in the request, and for more than MAX_BREAKPOINTS."""
    if len(breakpoints) > MAX_BREAKPOINTS:
        yield FieldViolation("breakpoints", f"more than {MAX_BREAKPOINTS}")
    for number, each in enumerate(breakpoints):
        field = f"breakpoints[{number}]"
        if each.point is BreakpointPoint.UNSPECIFIED:
            yield FieldViolation(f"{field}.point", "is missing, or unknown to this version")
        elif not each.name and each.point is not BreakpointPoint.MODEL:
            yield FieldViolation(f"{field}.name", "is missing")
        if len(each.name) > MAX_NAME:
            yield FieldViolation(f"{field}.name", f"longer than {MAX_NAME} characters")
