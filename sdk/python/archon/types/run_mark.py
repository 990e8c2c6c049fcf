"""Marks of runs by people."""

from __future__ import annotations

from archon.api.orchestrator.v1 import run_pb2
from archon.types.message_view import MessageView
from archon.wire import to_seconds


class RunMark(MessageView[run_pb2.Mark]):
    """A person's mark of a run, which `Client.mark` gives."""

    __slots__ = ()

    _SHOWN = ("identity", "reason")

    @property
    def identity(self) -> str:
        """The identity that marked the run."""
        return self.proto.identity

    @property
    def reason(self) -> str:
        """Why the run is of interest; may be empty."""
        return self.proto.reason

    @property
    def mark_time(self) -> float:
        """When the run was marked, in seconds since the epoch."""
        return to_seconds(self.proto.mark_time)
