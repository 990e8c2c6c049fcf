"""Wiring: settings, the store they ask for, the server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import ClassVar, Final

from pydantic import Field

from archon.api.registry.v1 import registry_service_pb2_grpc
from archon.server import GrpcServer, Service
from archon_services.common.settings import ServiceSettings
from archon_services.registry.api.servicer import RegistryServicer
from archon_services.registry.store.memory import MemoryStore
from archon_services.registry.store.port import RegistryStore

SERVICE: Final = "archon.api.registry.v1.RegistryService"
STOP_GRACE: Final = 0.5
"""Seconds for unary calls under way; KeepAlive streams are cut after it and made again elsewhere by their clients."""


class RegistrySettings(ServiceSettings):
    """The registry service."""

    section: ClassVar[str] = "registry"

    etcd: str = Field(
        default="127.0.0.1:2379", description="etcd's members as host:port,host:port; memory: kept in no etcd"
    )
    prefix: str = Field(default="/archon/v1", pattern=r"^/.*[^/]$", description="the prefix of all keys in etcd")


@asynccontextmanager
async def registry_app(settings: RegistrySettings) -> AsyncIterator[str]:
    """Serves while the block lasts; yields host:port. It starts whether or not etcd is there. Raises Unavailable where
    the port is taken, InvalidArgument where `etcd` is no list of host:port."""
    async with _store(settings) as store:
        servicer = RegistryServicer(store)
        server = GrpcServer(
            [Service(SERVICE, registry_service_pb2_grpc.add_RegistryServiceServicer_to_server, servicer)],
            host=settings.host,
            port=settings.port,
        )
        try:
            yield await server.start()
        finally:
            await server.unhealthy()
            store.end_watches()
            await server.stop(STOP_GRACE)


def _store(settings: RegistrySettings) -> AbstractAsyncContextManager[RegistryStore]:
    if settings.etcd.strip() == "memory":
        return MemoryStore()
    from archon_services.registry.store.etcd import EtcdStore  # aetcd is not needed for the other store

    return EtcdStore(settings.etcd, prefix=settings.prefix)
