"""Settings of the registry service."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from archon_services.common.quotas import load_quotas
from archon_services.common.settings import ServiceSettings
from archon_services.registry.domain.capacity import MAX_INSTANCES, MAX_PER_CLIENT, MAX_PER_ROLE, Capacity


class RegistrySettings(ServiceSettings):
    """The registry service."""

    section: ClassVar[str] = "registry"

    etcd: str = Field(
        default="127.0.0.1:2379",
        description="etcd members as host:port,host:port, or https://host:port with the certificate of ARCHON_TLS, or "
        "unix:/PATH; "
        "'memory' keeps the registry in this process, without etcd",
    )
    prefix: str = Field(default="/archon/v1", pattern=r"^/.*[^/]$", description="prefix of all keys in etcd")
    max_instances: int = Field(default=MAX_INSTANCES, ge=1, description="instances that may be registered")
    max_instances_per_role: int = Field(default=MAX_PER_ROLE, ge=1, description="instances of one role")
    max_instances_per_client: int = Field(
        default=MAX_PER_CLIENT, ge=1, description="instances that one host, an IP address, may register"
    )

    quotas: str = Field(
        default="",
        description="a YAML file with the quotas of tenants and identities, and the weights of tenants; empty: none",
    )
    audit_key: str = Field(
        default="",
        description="file with the private key (Ed25519, PEM, mode 0600) that seals the audit log; empty: it has "
        "links, and no seals",
    )
    audit_keep: float = Field(
        default=400 * 86_400.0, gt=0, description="seconds until an entry of the audit log is removed"
    )

    def capacity(self) -> Capacity:
        """Returns the bounds on the number of instances. Raises NotFound and InvalidArgument if the file of quotas
        cannot be read."""
        quotas = load_quotas(self.quotas)
        return Capacity(self.max_instances, self.max_instances_per_role, self.max_instances_per_client, quotas)
