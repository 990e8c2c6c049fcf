"""Settings of the HTTP gateway."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from archon_services.common.settings import ServiceSettings, in_home


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
    http_tls: str = Field(
        default="",
        description="folder of the certificate that HTTP clients see (tls.crt with its chain, tls.key), such as the "
        "one of ARCHON_TLS or of a public name: the HTTP gateway serves https alone, and reads files that have "
        "changed; empty: http",
    )
    trusted_proxies: str = Field(
        default="",
        description="addresses or networks of the proxies in front of the HTTP gateway, separated by commas, whose "
        "X-Forwarded-For and X-Forwarded-Proto count; empty: none",
    )
    keep_alive_seconds: int = Field(
        default=130,
        ge=1,
        le=86_400,
        description="seconds for which the HTTP gateway keeps an idle connection: more than any proxy in front of it "
        "does",
    )
    http_drain_seconds: float = Field(
        default=0.0,
        ge=0,
        le=600,
        description="seconds after SIGTERM for which the HTTP gateway goes on serving, while /readyz says that it "
        "stops and connections are closed after their answer: the time in which proxies notice",
    )
    public_url: str = Field(
        default="",
        pattern=r"^(https?://[A-Za-z0-9.:\[\]-]+)?$",
        description="URL of the HTTP gateway as browsers reach it, such as https://archon.example.com; empty: the "
        "address that it listens on",
    )
    origins: str = Field(
        default="",
        description="origins of pages elsewhere that may call the HTTP gateway with a token, separated by commas, such "
        "as https://app.example.com; empty: none",
    )
    session_key: str = Field(
        default_factory=lambda: in_home("session.key"),
        description="file of the key that seals cookies and links, made if there is none; the same for all replicas of "
        "the HTTP gateway",
    )
    login_folder: str = Field(
        default_factory=lambda: in_home("logins"),
        description="folder of one-time logins, which `archon up` and `archon token --browser` make",
    )
    oidc_client_secret: str = Field(
        default="", repr=False, description="secret of the OpenID client of browsers; empty: a public client"
    )
    requests_per_second: float = Field(
        default=50.0, gt=0, description="requests that an identity may send to the HTTP gateway, on the average"
    )
    streams: int = Field(default=100, ge=1, description="streams that an identity may have open at an HTTP gateway")
    body_seconds: float = Field(
        default=20.0, gt=0, description="seconds in which a request arrives at the HTTP gateway, headers and body each"
    )
    trial_models: str = Field(
        default="",
        description="models that prompts may be tried with in the web page, separated by commas, the default first, "
        "such as openai/gpt-5-mini; the HTTP gateway needs the key of their provider; `archon up` sets it to "
        "ARCHON_MODEL; empty: none",
    )
    trial_usd: float = Field(default=0.25, gt=0, le=1_000, description="US dollars that one trial of a prompt may cost")
    trial_usd_per_day: float = Field(
        default=5.0, gt=0, le=100_000, description="US dollars that the trials of an identity may cost on a day in UTC"
    )
    trial_seconds: float = Field(
        default=120.0, gt=0, le=3_600, description="seconds in which a trial of a prompt ends, its retries included"
    )
    a2a_name: str = Field(
        default="archon", min_length=1, max_length=100, description="name of the mesh in its agent card"
    )
    a2a_key: str = Field(
        default="",
        description="file with the private key (ECDSA on P-256, PEM) that signs agent cards; empty: a key that this "
        "process makes",
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
