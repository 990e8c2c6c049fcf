"""Wiring: settings, the store, the structure that is followed, the server."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar, Final, Literal

from pydantic import Field

from archon.api.memory.v1 import memory_graph_service_pb2_grpc, working_memory_service_pb2_grpc
from archon.server import GrpcServer, Service
from archon_services.common.settings import ServiceSettings
from archon_services.memory.api.graph_servicer import MemoryGraphServicer
from archon_services.memory.api.working_servicer import WorkingMemoryServicer
from archon_services.memory.domain.structure import Structure
from archon_services.memory.store.choose import open_store

SERVICE: Final = "archon.api.memory.v1.MemoryGraphService"
WORKING: Final = "archon.api.memory.v1.WorkingMemoryService"
STOP_GRACE: Final = 2.0
"""Seconds for calls under way."""


def default_db() -> str:
    """Below ARCHON_HOME, else below the current directory."""
    return str(Path(os.environ.get("ARCHON_HOME", ".archon")) / "memory.db")


class MemorySettings(ServiceSettings):
    """The shared memory."""

    section: ClassVar[str] = "memory"

    registry: str = Field(default="127.0.0.1:7101", pattern=r"^\S+:\d+$", description="host:port of the registry")
    db: str = Field(
        default_factory=default_db, min_length=1, description="a file, postgresql://..., or :memory: to survive nothing"
    )
    sync: Literal["full", "normal"] = Field(
        default="full",
        description="of a file: full survives a power cut, normal the death of the process; PostgreSQL is always full",
    )


@asynccontextmanager
async def memory_app(settings: MemorySettings) -> AsyncIterator[str]:
    """Serves while the block lasts; yields host:port. It starts whether or not the registry is there.

    Raises Unavailable where the port is taken or the database isn't there, FailedPrecondition where another process
    holds the store or a newer version wrote it, DataLoss where it is no such file.
    """
    async with open_store(settings.db, settings.sync) as store, Structure(settings.registry, store) as structure:
        server = GrpcServer(
            [
                Service(
                    SERVICE,
                    memory_graph_service_pb2_grpc.add_MemoryGraphServiceServicer_to_server,
                    MemoryGraphServicer(store, structure),
                ),
                Service(
                    WORKING,
                    working_memory_service_pb2_grpc.add_WorkingMemoryServiceServicer_to_server,
                    WorkingMemoryServicer(store.working),
                ),
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
