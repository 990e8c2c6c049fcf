"""Wires the registry service: settings, store, gRPC server."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import Final

from archon.api.audit.v1 import audit_service_pb2_grpc
from archon.api.registry.v1 import registry_service_pb2_grpc
from archon.history import AuditKey
from archon.security.authenticator import own_key_file
from archon.server import GrpcServer, Service
from archon_services.common.audit_service import AUDIT_SERVICE, AuditServicer
from archon_services.registry.api.servicer import RegistryServicer
from archon_services.registry.api.validation import is_loopback
from archon_services.registry.audit import AuditStore, EtcdAuditStore, MemoryAuditStore, RegistryAudit
from archon_services.registry.settings import RegistrySettings
from archon_services.registry.store.memory import MemoryStore
from archon_services.registry.store.port import RegistryStore

SERVICE: Final = "archon.api.registry.v1.RegistryService"
STOP_GRACE: Final = 0.5
"""Seconds that unary calls in flight get at shutdown; KeepAlive streams are then cut, and clients reconnect."""


@asynccontextmanager
async def registry_app(settings: RegistrySettings) -> AsyncIterator[str]:
    """Serves for the duration of the block and yields host:port. Starts whether or not etcd is available.

    Raises Unavailable if the port is in use, and InvalidArgument if `etcd` is not a list of host:port.
    """
    key = AuditKey.read(Path(settings.audit_key)) if settings.audit_key else None
    async with _store(settings) as store, aclosing(_audit(settings, key)) as audit:
        servicer = RegistryServicer(store, audit, loopback=is_loopback(settings.host), keys=own_key_file())
        add_audit = audit_service_pb2_grpc.add_AuditServiceServicer_to_server
        server = GrpcServer(
            [
                Service(SERVICE, registry_service_pb2_grpc.add_RegistryServiceServicer_to_server, servicer),
                Service(AUDIT_SERVICE, add_audit, AuditServicer(audit)),
            ],
            host=settings.host,
            port=settings.port,
        )
        try:
            yield await server.start()
        finally:
            await server.unhealthy()
            store.end_watches()
            await server.stop(STOP_GRACE)


def _audit(settings: RegistrySettings, key: AuditKey | None) -> RegistryAudit:
    store: AuditStore = MemoryAuditStore()
    if settings.etcd.strip() != "memory":
        store = EtcdAuditStore(settings.etcd, settings.prefix)
    return RegistryAudit(store, time.time, key=key, keep=settings.audit_keep)


def _store(settings: RegistrySettings) -> AbstractAsyncContextManager[RegistryStore]:
    if settings.etcd.strip() == "memory":
        return MemoryStore(capacity=settings.capacity())
    from archon_services.registry.store.etcd import EtcdStore  # only this store needs aetcd

    return EtcdStore(settings.etcd, prefix=settings.prefix, capacity=settings.capacity())
