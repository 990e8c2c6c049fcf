"""Health checks of a process: over gRPC, or over HTTP for etcd, Jaeger and the HTTP gateway."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from archon_services.local_mesh.etcd_server import UNIX

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    import grpc.aio

    from archon.api.agent.v1 import agent_service_pb2
    from archon.registry import Registration
    from archon.security.certificates import CertificateFolder
    from archon.security.credentials import Credentials
    from archon.security.tokens import Audience

TIMEOUT: Final = 1.5
"""Seconds per health check."""


class Probe:
    """Checks the process at one address. An async context manager that closes its connection. `name` is the name of
    a service, or the role of an agent; `describe` presents the `credentials`; a health check needs none.
    `certificate` is for connections that are encrypted. With an `instance_id`, the address belongs to the
    orchestrator to which this agent is attached."""

    def __init__(
        self,
        kind: str,
        address: str,
        name: str = "",
        credentials: Credentials | None = None,
        certificate: CertificateFolder | None = None,
        instance_id: str = "",
    ) -> None:
        self._certificate = certificate
        self._instance_id = instance_id
        self._name = name
        self._credentials = credentials
        self._kind = kind
        self._address = address
        self._channel: grpc.aio.Channel | None = None
        self._trusted: tuple[bytes, ssl.SSLContext] | None = None

    async def __aenter__(self) -> Probe:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._channel is not None:
            await self._channel.close()

    @classmethod
    def of(cls, instance: Registration, credentials: Mapping[Audience, Credentials]) -> Probe:
        """Returns the probe of an instance of the registry, through its orchestrator if it is attached."""
        if instance.address:
            return cls("agent", instance.address, instance.role, credentials["agents"])
        own = credentials["services"]
        return cls("service", instance.via_orchestrator, "orchestrator", own, instance_id=instance.instance_id)

    async def serves(self) -> bool:
        """Whether the process reports to be serving, within TIMEOUT seconds."""
        match self._kind:
            case "etcd":
                return await self._http("/health", b'"true"')
            case "jaeger":
                return await self._http("/api/services", b" 200 ")
            case "gateway":
                return await self._http("/healthz", b" 200 ")
        return await self._grpc()

    async def describe(self) -> agent_service_pb2.DescribeResponse | None:
        """The description of the agent at the address, by itself; None if it does not answer within TIMEOUT seconds."""
        from archon.api.agent.v1 import agent_service_pb2, agent_service_pb2_grpc
        from archon.errors import ArchonError

        stub: Any = agent_service_pb2_grpc.AgentServiceStub(self._connected())
        try:
            response: agent_service_pb2.DescribeResponse = await stub.Describe(
                agent_service_pb2.DescribeRequest(), timeout=TIMEOUT
            )
        except ArchonError:
            return None
        return response

    def _connected(self) -> grpc.aio.Channel:
        from archon.channel import agent_options, connect
        from archon.security.credentials import NoCredentials
        from archon.security.peer import Peer

        if self._channel is None:
            credentials = self._credentials or NoCredentials()
            self._channel = connect(
                self._address,
                agent_options(),
                peer=Peer("agent" if self._kind == "agent" else "service", self._name),
                credentials=credentials,
                certificate=self._certificate,
                instance_id=self._instance_id,
            )
        return self._channel

    async def _grpc(self) -> bool:
        # Slow imports, delayed until the processes have been started: they start meanwhile.
        from grpc_health.v1 import health_pb2, health_pb2_grpc

        from archon.errors import ArchonError

        stub: Any = health_pb2_grpc.HealthStub(self._connected())
        try:
            response = await stub.Check(health_pb2.HealthCheckRequest(), timeout=TIMEOUT)
        except ArchonError:
            return False
        return bool(response.status == health_pb2.HealthCheckResponse.SERVING)

    def _context(self) -> ssl.SSLContext | None:
        """Returns the context of connections over HTTP; None if they are not encrypted."""
        if self._kind != "gateway" or self._certificate is None:
            return None
        import ssl

        authorities = self._certificate.read().authorities
        if self._trusted is None or self._trusted[0] != authorities:
            self._trusted = authorities, ssl.create_default_context(cadata=authorities.decode())
        return self._trusted[1]

    async def _http(self, path: str, expected: bytes) -> bool:
        try:
            async with asyncio.timeout(TIMEOUT):
                reader, writer = await open_address(self._address, self._context())
                try:
                    writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
                    return expected in await reader.read(4096)
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return False


async def open_address(
    address: str, context: ssl.SSLContext | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connects to `host:port`, or to the Unix socket of `unix:PATH`; with TLS in a context for it. Raises OSError, or
    ValueError for another form."""
    if address.startswith(UNIX):
        return await asyncio.open_unix_connection(address.removeprefix(UNIX))
    host, _, port = address.rpartition(":")
    return await asyncio.open_connection(host.strip("[]"), int(port), ssl=context)
