"""The gRPC server of A2A, for callers outside of the mesh."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc.aio
from a2a.server.request_handlers.grpc_handler import GrpcHandler
from a2a.types import a2a_pb2, a2a_pb2_grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from archon.channel import server_options
from archon.errors import Unavailable
from archon.loopback import with_port
from archon_services.gateway.tls import ServerCertificate, grpc_credentials

STOP_GRACE: Final = 2.0
"""Seconds that calls in flight get at shutdown."""


@asynccontextmanager
async def serve_grpc(
    servicer: GrpcHandler, host: str, port: int, certificate: ServerCertificate | None = None
) -> AsyncIterator[int]:
    """Serves A2A over gRPC for the duration of the block, and yields the port; port 0 picks a free one. With a
    `certificate` connections are encrypted. Raises Unavailable if the port is taken."""
    server = grpc.aio.server(options=server_options())
    add_to_server: Any = a2a_pb2_grpc.add_A2AServiceServicer_to_server
    add_to_server(servicer, server)
    name = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"].full_name
    healthy = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
    reflection.enable_server_reflection([name, health.SERVICE_NAME, reflection.SERVICE_NAME], server)
    wanted = with_port(host, port)
    try:
        if certificate is None:
            bound = server.add_insecure_port(wanted)
        else:
            bound = server.add_secure_port(wanted, grpc_credentials(certificate))
    except RuntimeError:
        bound = 0
    if not bound:
        text = f"cannot listen on {wanted}; is another process using the port?"
        raise Unavailable(text, metadata={"address": wanted})
    await server.start()
    for each in ("", name):
        await healthy.set(each, health_pb2.HealthCheckResponse.SERVING)
    try:
        yield bound
    finally:
        await server.stop(STOP_GRACE)
