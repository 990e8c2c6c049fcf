"""Track records of roles and instances."""

from __future__ import annotations

from archon.api.orchestrator.v1 import run_pb2
from archon.types.message_view import MessageView


class InstanceMetrics(MessageView[run_pb2.InstanceMetrics]):
    """The record of a role, or of one of its instances, by which placement chooses. Older tasks count less: half after
    a day; bids, conflicts and ratings half after a week. So counts are not whole numbers."""

    __slots__ = ()

    _SHOWN = ("role", "instance_id", "tasks", "success_rate")

    @property
    def role(self) -> str:
        """The role."""
        return self.proto.role

    @property
    def instance_id(self) -> str:
        """The instance's id; empty for the role as a whole."""
        return self.proto.instance_id

    @property
    def tasks(self) -> float:
        """Number of attempts that completed, or failed by the instance's own fault."""
        return self.proto.tasks

    @property
    def success_rate(self) -> float:
        """Part of them that completed, from 0 to 1."""
        return self.proto.success_rate

    @property
    def mean_seconds(self) -> float:
        """Mean seconds of an attempt that completed."""
        return self.proto.mean_seconds

    @property
    def p95_seconds(self) -> float:
        """Seconds within which 95 % of those ended; 0 if fewer than 20 are measured."""
        return self.proto.p95_seconds

    @property
    def mean_cost_micro_usd(self) -> float:
        """Mean cost of a completed attempt in millionths of a US dollar."""
        return self.proto.mean_cost_micro_usd

    @property
    def bids(self) -> float:
        """Number of steps that the instance executed after an award to a bid."""
        return self.proto.bids

    @property
    def bids_kept_rate(self) -> float:
        """Part of them whose cost and time stayed within the bid."""
        return self.proto.bids_kept_rate

    @property
    def conflicts(self) -> float:
        """Number of decisions with a conflict in which a result of the instance took part."""
        return self.proto.conflicts

    @property
    def conflicts_won_rate(self) -> float:
        """Part of them in which its answer won."""
        return self.proto.conflicts_won_rate

    @property
    def ratings(self) -> float:
        """Number of ratings of runs in which the instance completed a task."""
        return self.proto.ratings

    @property
    def mean_stars(self) -> float:
        """Their mean, from 1 to 5; 0 without a rating."""
        return self.proto.mean_stars
