"""The services of the mesh as the HTTP gateway calls them, over gRPC."""

from __future__ import annotations

from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final

import grpc.aio

from archon.channel import connect
from archon.errors import Unimplemented
from archon.security.credentials import NoCredentials
from archon.security.peer import MEMORY, ORCHESTRATOR, REGISTRY, Peer
from archon_services.gateway.settings import GatewaySettings

_HOSTS: Final[dict[str, Peer]] = {
    "archon.api.orchestrator.v1.OrchestratorService": ORCHESTRATOR,
    "archon.api.orchestrator.v1.ScheduleService": ORCHESTRATOR,
    "archon.api.orchestrator.v1.HookService": ORCHESTRATOR,
    "archon.api.audit.v1.AuditService": ORCHESTRATOR,
    "archon.api.registry.v1.RegistryService": REGISTRY,
    "archon.api.memory.v1.MemoryGraphService": MEMORY,
    "archon.api.memory.v1.WorkingMemoryService": MEMORY,
    "archon.api.memory.v1.LongTermMemoryService": MEMORY,
}
"""The services whose RPCs are forwarded, by their full names. Agents are at addresses of their own."""


class Upstream:
    """Channels to the services. An async context manager that closes them.

    Calls over `forwarding` carry no credentials but those in the metadata of the call: `Visitor.metadata`. Calls over
    `own` carry the credentials of the gateway, which is a service of the mesh, and act on behalf of the identity of
    `archon.context.current()`.
    """

    def __init__(self, settings: GatewaySettings) -> None:
        self._addresses = {
            ORCHESTRATOR: settings.orchestrator,
            REGISTRY: settings.registry,
            MEMORY: settings.memory,
        }
        self._forwarding: dict[Peer, grpc.aio.Channel] = {}
        self._own: dict[Peer, grpc.aio.Channel] = {}
        self._stack = AsyncExitStack()

    @property
    def services(self) -> tuple[str, ...]:
        """The full names of the services that can be reached."""
        return tuple(name for name, peer in _HOSTS.items() if self._addresses[peer])

    def forwarding(self, service: str) -> grpc.aio.Channel:
        """Returns the channel for calls of visitors to a service, by its full name. Raises Unimplemented if the gateway
        does not reach it."""
        peer = self._peer(service)
        return self._forwarding[peer]

    def own(self, service: str) -> grpc.aio.Channel:
        """Returns the channel for calls of the gateway itself. Raises Unimplemented as `forwarding` does."""
        peer = self._peer(service)
        return self._own[peer]

    def _peer(self, service: str) -> Peer:
        peer = _HOSTS.get(service)
        if peer is None or peer not in self._own:
            raise Unimplemented(f"the gateway does not reach the service {service}", metadata={"service": service})
        return peer

    async def __aenter__(self) -> Upstream:
        for peer, address in self._addresses.items():
            if address:
                # Never the certificate's identity: without a token, a visitor would call as this service.
                self._forwarding[peer] = connect(address, peer=peer, credentials=NoCredentials())
                self._stack.push_async_callback(self._forwarding[peer].close)
                self._own[peer] = connect(address, peer=peer)
                self._stack.push_async_callback(self._own[peer].close)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
