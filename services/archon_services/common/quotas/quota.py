"""The quotas of tenants and identities: plain values, looked up by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

EVERY_OTHER: Final = "*"
"""The entry for each tenant, or identity, that has no entry of its own."""

DAY: Final = 86_400.0
"""Seconds of a day. Days begin at midnight in UTC."""


@dataclass(frozen=True, slots=True)
class Quota:
    """The quotas of one tenant or identity; None: no bound. Identities have neither `instances` nor `weight`.

    `runs` are those under way, and `streams` those open, on one replica of the orchestrator; `instances` those
    registered. The others count a day, on all replicas together. `micro_usd_per_day` is in millionths of a US dollar.
    """

    runs: int | None = None
    streams: int | None = None
    instances: int | None = None
    runs_per_day: int | None = None
    bytes_per_day: int | None = None
    tokens_per_day: int | None = None
    micro_usd_per_day: int | None = None
    weight: float = 1.0


_NO_BOUND: Final = Quota()


@dataclass(frozen=True, slots=True)
class Quotas:
    """The quotas of all tenants and identities by name."""

    tenants: Mapping[str, Quota] = field(default_factory=dict)
    identities: Mapping[str, Quota] = field(default_factory=dict)

    def of_tenant(self, tenant: str) -> Quota:
        """Returns the quotas of a tenant, without a bound if the file has none."""
        return self.tenants.get(tenant) or self.tenants.get(EVERY_OTHER) or _NO_BOUND

    def of_identity(self, identity: str) -> Quota:
        """Returns the quotas that an identity has in each tenant, without a bound if the file has none."""
        return self.identities.get(identity) or self.identities.get(EVERY_OTHER) or _NO_BOUND
