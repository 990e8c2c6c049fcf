"""Versions of learned weights."""

from __future__ import annotations

from dataclasses import dataclass

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.types.message_view import MessageView
from archon.wire import to_seconds


@dataclass(frozen=True, slots=True)
class LearnedWeight:
    """The weight of a subject, from 0.5 to 2, and the one before. `kind` is role, instance, tool or variant; `name` is
    empty for a role. `outcomes` is their number, where older ones count less, `score` their mean from 0 to 1."""

    kind: str
    role: str
    name: str
    weight: float
    before: float
    outcomes: float
    score: float


class LearnedVersion(MessageView[pb.LearnedVersion]):
    """A version of the weights that a tenant's outcomes and people made."""

    __slots__ = ()

    _SHOWN = ("version", "origin")

    @property
    def version(self) -> int:
        """Number of the version, from 1."""
        return self.proto.version

    @property
    def origin(self) -> str:
        """learned, proposed, approved, rejected or reverted."""
        return pb.LearnedOrigin.Name(self.proto.origin).removeprefix("LEARNED_ORIGIN_").lower()

    @property
    def create_time(self) -> float:
        """When the version was stored, in seconds since the epoch."""
        return to_seconds(self.proto.create_time)

    @property
    def of_version(self) -> int:
        """The version that was approved, rejected or gone back to; 0 if there is none."""
        return self.proto.of_version

    @property
    def identity(self) -> str:
        """The identity that decided; empty if outcomes made the version."""
        return self.proto.identity

    @property
    def comment(self) -> str:
        """The comment of that identity."""
        return self.proto.comment

    @property
    def in_use(self) -> bool:
        """Whether new runs use this version."""
        return self.proto.in_use

    @property
    def weights(self) -> tuple[LearnedWeight, ...]:
        """The weights, by kind, role and name."""
        return tuple(
            LearnedWeight(each.kind, each.role, each.name, each.weight, each.before, each.outcomes, each.score)
            for each in self.proto.weights
        )
