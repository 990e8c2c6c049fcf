"""Breakpoints of runs."""

from __future__ import annotations

from dataclasses import dataclass

from archon.api.common.v1 import question_pb2
from archon.breakpoint_text import read_breakpoint, write_breakpoint
from archon.types.enum_name import enum_name
from archon.types.failure import Failure
from archon.types.message_view import MessageView


@dataclass(frozen=True, slots=True)
class UnheldTask:
    """A task whose attempt does not hold at a breakpoint. The reason of the failure is `BREAKPOINT_NOT_HELD`; its
    message says why."""

    task_id: str
    role: str
    attempt: int
    failure: Failure


class RunBreakpoint(MessageView[question_pb2.Breakpoint]):
    """A breakpoint of a run."""

    __slots__ = ()

    _SHOWN = ("point", "name")

    @property
    def point(self) -> str:
        """`tool`, `model`, `task` or `step`; empty if it is unknown to this version."""
        return enum_name(question_pb2.BreakpointPoint, "BREAKPOINT_POINT_", self.proto.point)

    @property
    def name(self) -> str:
        """Pattern of the name of the tool, the role or the step; empty: any."""
        return self.proto.name

    @property
    def text(self) -> str:
        """The breakpoint as it is written, such as `tool:pay`."""
        return write_breakpoint(self.point, self.name)

    @property
    def unheld(self) -> list[UnheldTask]:
        """The tasks whose attempt in progress, or last one, does not hold at it."""
        return [
            UnheldTask(each.task_id, each.role, each.attempt, Failure.from_proto(each.failure))
            for each in self.proto.unheld
        ]


def to_breakpoint(text: str) -> question_pb2.Breakpoint:
    """Converts a breakpoint, such as `tool:pay`. Raises InvalidArgument for any other text."""
    point, name = read_breakpoint(text)
    return question_pb2.Breakpoint(
        point=question_pb2.BreakpointPoint.Value(f"BREAKPOINT_POINT_{point.upper()}"), name=name
    )
