"""The use of quotas."""

from __future__ import annotations

from dataclasses import dataclass

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.types.message_view import MessageView


@dataclass(frozen=True, slots=True)
class QuotaCount:
    """The use of one quota, such as `runs_per_day`; `limit` is None if there is none. Costs are in US dollars."""

    quota: str
    used: float
    limit: float | None


class QuotaUse(MessageView[pb.QuotaUse]):
    """The quotas of a tenant, or of an identity in it, and their use today."""

    __slots__ = ()

    _SHOWN = ("tenant", "identity")

    @property
    def tenant(self) -> str:
        """The tenant."""
        return self.proto.tenant

    @property
    def identity(self) -> str:
        """The identity; empty for the tenant as a whole."""
        return self.proto.identity

    @property
    def weight(self) -> float:
        """Weight of the tenant in the scheduler; 0 for an identity."""
        return self.proto.weight

    @property
    def counts(self) -> tuple[QuotaCount, ...]:
        """The quotas, each with its use."""
        return tuple(
            QuotaCount(count.quota, count.used, count.limit if count.HasField("limit") else None)
            for count in self.proto.counts
        )
