"""Answers of runs."""

from __future__ import annotations

from archon.api.orchestrator.v1 import run_pb2
from archon.types.message_view import MessageView
from archon.types.part import Part, to_parts
from archon.wire import text_of


class RunAnswer(MessageView[run_pb2.Answer]):
    """A final answer of a run: of a role, or of a step of its plan."""

    __slots__ = ()

    _SHOWN = ("role", "text")

    @property
    def role(self) -> str:
        """The role that gave the answer."""
        return self.proto.role

    @property
    def parts(self) -> tuple[Part, ...]:
        """The answer."""
        return to_parts(self.proto.parts)

    @property
    def text(self) -> str:
        """The text parts and the JSON values, joined by empty lines."""
        return text_of(self.proto.parts)

    @property
    def task_id(self) -> str:
        """The task that gave the answer."""
        return self.proto.task_id

    @property
    def step_id(self) -> str:
        """The step of the plan that the task executed; empty if none."""
        return self.proto.step_id
