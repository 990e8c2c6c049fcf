"""Settings of the HTTP gateway."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from archon_services.common.settings import ServiceSettings


class GatewaySettings(ServiceSettings):
    """The HTTP gateway."""

    section: ClassVar[str] = "gateway"

    orchestrator: str = Field(
        default="127.0.0.1:7100", pattern=r"^\S+:\d+$", description="host:port of the orchestrator"
    )
    registry: str = Field(default="127.0.0.1:7101", pattern=r"^\S+:\d+$", description="host:port of the registry")
    memory: str = Field(
        default="127.0.0.1:7102",
        pattern=r"^(\S+:\d+)?$",
        description="host:port of the memory service; empty: its RPCs are not served",
    )
