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
    public_url: str = Field(
        default="",
        pattern=r"^(https?://[^\s?#]+)?$",
        description="URL by which others reach the gateway, as agent cards say it; empty: the address it listens on",
    )
    a2a_name: str = Field(default="archon", min_length=1, max_length=100, description="name of the mesh in its agent card")
    a2a_key: str = Field(
        default="",
        description="file with the private key (ECDSA on P-256, PEM) that signs agent cards; empty: a key of the process",
    )
    a2a_grpc_port: int = Field(default=0, ge=0, le=65535, description="port of A2A over gRPC; 0 picks a free port")
    a2a_grpc_target: str = Field(
        default="",
        pattern=r"^(\S+:\d+)?$",
        description="host:port by which others reach A2A over gRPC; empty: the address it listens on",
    )
    a2a_push_hosts: str = Field(
        default="",
        description="hosts, or host:port, with commas, to which push notifications may go although their addresses are "
        "not public, and without TLS",
    )
