"""Recorded calls of models and tools."""

from __future__ import annotations

from archon.api.orchestrator.v1 import run_pb2
from archon.types.message_view import MessageView
from archon.types.task_ref import TaskRef
from archon.types.usage import Usage
from archon.wire import to_seconds


class RunRecord(MessageView[run_pb2.RunRecord]):
    """One call of a model or a tool in a run, as it was made; its agent may have left out the contents."""

    __slots__ = ()

    _SHOWN = ("ordinal", "kind", "role", "target")

    @property
    def task(self) -> TaskRef:
        """The attempt that made the call."""
        return TaskRef.from_proto(self.proto.task)

    @property
    def role(self) -> str:
        """The task's role."""
        return self.proto.role

    @property
    def ordinal(self) -> int:
        """Position of the record in the run, from 1."""
        return self.proto.ordinal

    @property
    def kind(self) -> str:
        """`model` or `tool`."""
        return self.proto.kind

    @property
    def target(self) -> str:
        """Name of the model or tool."""
        return self.proto.target

    @property
    def start_time(self) -> float:
        """Start of the call, in seconds since the epoch."""
        return to_seconds(self.proto.start_time)

    @property
    def duration(self) -> float:
        """Duration of the call in seconds."""
        return to_seconds(self.proto.duration)

    @property
    def usage(self) -> Usage:
        """The call's usage."""
        return Usage.from_proto(self.proto.usage)

    @property
    def request_json(self) -> str:
        """Request of the call: one JSON value."""
        return self.proto.request_json

    @property
    def response_json(self) -> str:
        """Response of the call: one JSON value."""
        return self.proto.response_json
