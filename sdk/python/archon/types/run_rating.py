"""Ratings of runs by people."""

from __future__ import annotations

from archon.api.orchestrator.v1 import run_pb2
from archon.types.message_view import MessageView
from archon.wire import to_seconds


class RunRating(MessageView[run_pb2.Rating]):
    """A person's rating of a run, which `Client.rate` gives."""

    __slots__ = ()

    _SHOWN = ("identity", "stars")

    @property
    def identity(self) -> str:
        """The identity that rated."""
        return self.proto.identity

    @property
    def stars(self) -> int:
        """The rating, from 1 (bad) to 5 (good)."""
        return self.proto.stars

    @property
    def comment(self) -> str:
        """The rater's comment; empty if there is none."""
        return self.proto.comment

    @property
    def rate_time(self) -> float:
        """When the run was rated, in seconds since the epoch."""
        return to_seconds(self.proto.rate_time)
