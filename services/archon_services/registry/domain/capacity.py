"""How many instances the registry takes: in all, of one role, from one client, and of one tenant.

A client is the host from which instances are registered, so that no single machine can fill the registry. An instance
counts until its lease expires or it is deregistered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from archon.api.registry.v1.registry_pb2 import Registration
from archon.errors import QuotaExceeded, ResourceExhausted
from archon.principal import DEFAULT_TENANT
from archon_services.common.quotas import Quotas
from archon_services.common.tenants import tenant_of
from archon_services.registry.domain.roles import key_of
from archon_services.registry.domain.state import State

MAX_INSTANCES: Final = 20_000
MAX_PER_ROLE: Final = 10_000
MAX_PER_CLIENT: Final = 15_000

RETRY_DELAY: Final = 10.0
"""Seconds after which a refused client may try again: the default lease, by whose end a dead instance is gone."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Bounds on the number of instances: in all, of a role, of a client, and of a tenant if `quotas` has one."""

    instances: int = MAX_INSTANCES
    per_role: int = MAX_PER_ROLE
    per_client: int = MAX_PER_CLIENT
    quotas: Quotas | None = None

    def check(self, state: State, registration: Registration, client: str) -> None:
        """Checks that one more instance may be registered from `client`, a host; an empty host has no bound. One that
        is registered already is never refused. Raises ResourceExhausted with the name of the setting, or QuotaExceeded.

        The counts are taken from `state`. Over etcd it is the state which the transaction compares, so that replicas of
        the registry do not exceed a bound together; only instances registered by an earlier version of the registry
        count for no client.
        """
        if registration.instance_id in state.instances:
            return
        role = state.roles.get(key_of(registration))
        counts = [
            (len(state.instances), self.instances, "max_instances", "the registry"),
            (role.instances if role else 0, self.per_role, "max_instances_per_role", f"the role {registration.role}"),
        ]
        if client:
            counts.append(
                (state.clients.get(client, 0), self.per_client, "max_instances_per_client", f"the client {client}")
            )
        for count, limit, setting, holder in counts:
            if count >= limit:
                raise ResourceExhausted(
                    f"{holder} has {count:,} instances and may have {limit:,} (setting {setting}); deregister some, or "
                    "wait until leases expire",
                    metadata={"limit": str(limit), "setting": setting, "role": registration.role, "client": client},
                    retry_delay=RETRY_DELAY,
                )
        if self.quotas is not None:
            _check_quota(self.quotas, state, registration)


def _check_quota(quotas: Quotas, state: State, registration: Registration) -> None:
    tenant = registration.tenant or DEFAULT_TENANT
    limit = quotas.of_tenant(tenant).instances
    if limit is None:
        return
    used = sum(role.instances for key, role in state.roles.items() if tenant_of(key) == tenant)
    if used >= limit:
        raise QuotaExceeded(
            f"the tenant {tenant} has {used:,} instances and may have {limit:,} (quota instances)",
            metadata={"quota": "instances", "limit": str(limit), "used": str(used), "tenant": tenant},
            retry_delay=RETRY_DELAY,
        )
