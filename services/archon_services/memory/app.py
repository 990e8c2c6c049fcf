"""Wires the shared memory service: settings, store, registry watch, gRPC server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Final

from archon.api.memory.v1 import (
    long_term_memory_service_pb2_grpc,
    memory_graph_service_pb2_grpc,
    working_memory_service_pb2_grpc,
)
from archon.errors import InvalidArgument
from archon.server import GrpcServer, Service
from archon.telemetry import metrics
from archon_services.common.startup import when_available
from archon_services.memory.api.graph_servicer import MemoryGraphServicer
from archon_services.memory.api.long_term_servicer import LongTermMemoryServicer
from archon_services.memory.api.working_servicer import WorkingMemoryServicer
from archon_services.memory.long_term import open_long_term_memory
from archon_services.memory.registry_watch import RegistryWatch
from archon_services.memory.settings import MemorySettings
from archon_services.memory.store.sql_store import SqlStore
from archon_services.postgres.dsn import is_dsn

SERVICE: Final = "archon.api.memory.v1.MemoryGraphService"
WORKING: Final = "archon.api.memory.v1.WorkingMemoryService"
LONG_TERM: Final = "archon.api.memory.v1.LongTermMemoryService"
STOP_GRACE: Final = 2.0
"""Seconds that calls in flight get at shutdown."""


@asynccontextmanager
async def memory_app(settings: MemorySettings) -> AsyncIterator[str]:
    """Serves for the duration of the block and yields host:port. Starts whether or not the registry is available.

    Waits until its database can be reached. Raises Unavailable if the port is in use, FailedPrecondition if another
    process uses the store or a newer version of Archon wrote it, DataLoss if the file is not a valid store, and
    InvalidArgument if `db` is malformed.
    """
    async with AsyncExitStack() as stack:
        store = await _opened_store(settings, stack)
        registry_watch = await stack.enter_async_context(RegistryWatch(settings.registry, store))
        if (recorder := metrics.recorder()) is not None:
            stack.callback(recorder.observe(metrics.WATCH_LAG, lambda: [((), registry_watch.lag)]))
        services = [
            Service(
                SERVICE,
                memory_graph_service_pb2_grpc.add_MemoryGraphServiceServicer_to_server,
                MemoryGraphServicer(store, registry_watch.graph),
            ),
            Service(
                WORKING,
                working_memory_service_pb2_grpc.add_WorkingMemoryServiceServicer_to_server,
                WorkingMemoryServicer(store.working),
            ),
        ]
        long_term = await stack.enter_async_context(open_long_term_memory(settings))
        if long_term is not None:
            add = long_term_memory_service_pb2_grpc.add_LongTermMemoryServiceServicer_to_server
            services.append(Service(LONG_TERM, add, LongTermMemoryServicer(long_term)))
        server = GrpcServer(services, host=settings.host, port=settings.port)
        try:
            yield await server.start()
        finally:
            await server.unhealthy()
            store.end_watches()
            await server.stop(STOP_GRACE)


async def _opened_store(settings: MemorySettings, stack: AsyncExitStack) -> SqlStore:
    """Opens the store; waits for a database that cannot be reached yet."""

    async def attempt() -> SqlStore:
        return await stack.enter_async_context(_store(settings))

    if not is_dsn(settings.db):
        return await attempt()
    return await when_available(attempt, "the memory service's database")


def _store(settings: MemorySettings) -> AbstractAsyncContextManager[SqlStore]:
    if is_dsn(settings.db):
        from archon_services.memory.store.postgres import PostgresStore  # only this store needs asyncpg

        return PostgresStore(settings.db)
    if "://" in settings.db:
        raise InvalidArgument("db must be a file, ':memory:', or the address of a PostgreSQL database (postgresql://)")
    from archon_services.memory.store.sqlite.store import SqliteStore

    return SqliteStore(settings.db, sync=settings.sync)
