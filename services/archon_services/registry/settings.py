"""Settings of the registry service."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from archon_services.common.settings import ServiceSettings


class RegistrySettings(ServiceSettings):
    """The registry service."""

    section: ClassVar[str] = "registry"

    etcd: str = Field(
        default="127.0.0.1:2379",
        description="etcd members as host:port,host:port; 'memory' keeps the registry in this process, without etcd",
    )
    prefix: str = Field(default="/archon/v1", pattern=r"^/.*[^/]$", description="prefix of all keys in etcd")
