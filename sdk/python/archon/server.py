"""The gRPC server of services and agents: guarded handlers, health, reflection, and graceful shutdown."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from archon import errors
from archon.background import BackgroundLoop, monitor
from archon.channel import server_options
from archon.grpc_log import quieten
from archon.interceptors.guard import GuardedServer
from archon.interceptors.open_streams import OpenStreams
from archon.local_sockets import socket_of
from archon.loopback import with_port
from archon.private_files import fault_of, private_folder
from archon.security.authenticator import Authenticator, Open, own_authenticator
from archon.security.certificates import own_folder
from archon.security.secure_channel import server_credentials
from archon.security.transport import check_listening

_log = logging.getLogger(__name__)

HEALTH_PORT: Final = "ARCHON_HEALTH_PORT"
"""The variable with the port on which a server with TLS answers health checks without it."""

CHECK_INTERVAL: Final = 1.0
"""Seconds between two looks at the credentials of open streams."""

T = TypeVar("T")


quieten()


@dataclass(frozen=True, slots=True)
class Service:
    """One gRPC service to serve: its full name, the generated `add_..._to_server`, and the servicer."""

    name: str
    add: Callable[[Any, Any], None]
    servicer: Any


class GrpcServer:
    """Serves `services` on `host:port`; port 0 picks a free one. Callers are let in by `authenticator`, by default as
    the environment says (ARCHON_KEYS). Raises FailedPrecondition if the keys cannot be read."""

    def __init__(
        self,
        services: Sequence[Service],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        authenticator: Authenticator | None = None,
    ) -> None:
        self._services = services
        self._host = host
        self._wanted = port
        self._server: grpc.aio.Server | None = None
        self._health_server: grpc.aio.Server | None = None
        self._health = health.aio.HealthServicer()
        self._stopped: asyncio.Task[None] | None = None
        self._reporting: asyncio.Future[None] | None = None
        self._names: list[str] = []
        self._streams = OpenStreams(own_authenticator() if authenticator is None else authenticator)
        self._checking = BackgroundLoop("credentials of open streams", self._check_streams)
        self._keys = BackgroundLoop("keys of an OpenID provider", self._streams.authenticator.keep_keys)
        self.port = 0

    @property
    def address(self) -> str:
        """host:port where the server listens; the port is 0 before `start` if any was asked for."""
        return with_port(self._host, self.port)

    async def start(self) -> str:
        """Binds the port and serves. Returns the address. Raises Unavailable if the port is taken."""
        server = grpc.aio.server(options=server_options(), maximum_concurrent_rpcs=None)
        guarded: Any = GuardedServer(server, self._streams)
        for service in self._services:
            service.add(service.servicer, guarded)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, guarded)
        names = [service.name for service in self._services]
        reflected = reflection.aio.ReflectionServicer([*names, health.SERVICE_NAME, reflection.SERVICE_NAME])
        add_reflection: Any = reflection_pb2_grpc.add_ServerReflectionServicer_to_server
        add_reflection(reflected, guarded)
        guarded.refuse_unknown_methods(names)
        wanted = with_port(self._host, self._wanted)
        certificate = own_folder()
        if warning := check_listening(self._host, encrypted=certificate is not None):
            _log.warning("%s", warning)
        try:
            self.port = (
                server.add_insecure_port(wanted)
                if certificate is None
                else server.add_secure_port(wanted, server_credentials(certificate))
            )
        except RuntimeError as error:
            raise errors.Unavailable(
                f"cannot listen on {wanted}: is another process using the port?", metadata={"address": wanted}
            ) from error
        if certificate is None:
            self._listen_locally(server)
        else:
            await self._serve_health()
        await server.start()
        self._server = server
        self._names = ["", *names]
        await self._report_health()
        monitor.subscribers.append(self._loops_changed)
        if not isinstance(self._streams.authenticator, Open):
            self._checking.start()
            self._keys.start()
        return self.address

    async def _check_streams(self) -> None:
        while True:
            await asyncio.sleep(CHECK_INTERVAL)
            self._streams.end_refused()

    async def _serve_health(self) -> None:
        """Serves health alone on ARCHON_HEALTH_PORT, without TLS: probes of Kubernetes have no certificate."""
        if not (port := os.environ.get(HEALTH_PORT, "")):
            return
        self._health_server = grpc.aio.server(options=server_options())
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._health_server)
        wanted = with_port(self._host, int(port)) if port.isdecimal() else port
        try:
            self._health_server.add_insecure_port(wanted)
        except RuntimeError as error:
            raise errors.Unavailable(
                f"cannot listen on {wanted} for health checks ({HEALTH_PORT})", metadata={"address": wanted}
            ) from error
        await self._health_server.start()

    def _listen_locally(self, server: grpc.aio.Server) -> None:
        path = socket_of(self.port)
        if path is None:
            return
        try:
            private_folder(path.parent)
            if fault := fault_of(path.parent):
                raise OSError(f"cannot use its folder: {fault}")
            server.add_insecure_port(f"unix:{path}")
        except (OSError, RuntimeError) as error:
            _log.warning("cannot listen on %s, clients on this machine use the port: %s", path, error)

    def _loops_changed(self) -> None:
        self._reporting = asyncio.ensure_future(self._report_health())

    async def _report_health(self) -> None:
        """Reports SERVING, or NOT_SERVING while a background loop of the process keeps failing."""
        status = health_pb2.HealthCheckResponse
        for name in self._names:
            await self._health.set(name, status.NOT_SERVING if monitor.failing else status.SERVING)

    async def unhealthy(self) -> None:
        """Makes health report NOT_SERVING, so that clients send no new calls."""
        await self._health.enter_graceful_shutdown()

    async def stop(self, grace: float = 5.0) -> None:
        """Reports NOT_SERVING, refuses new calls, and gives calls in progress `grace` seconds. Idempotent."""
        if self._stopped is None:
            self._stopped = asyncio.ensure_future(self._stop(grace))
        await asyncio.shield(self._stopped)

    async def _stop(self, grace: float) -> None:
        if self._loops_changed in monitor.subscribers:
            monitor.subscribers.remove(self._loops_changed)
        await self._checking.close()
        await self._keys.close()
        await self.unhealthy()
        for server in (self._server, self._health_server):
            if server is not None:
                await server.stop(grace)


def announce(ready_file: Path | None, address: str) -> None:
    """Writes the address to the ready file, if there is one, atomically."""
    if ready_file is not None:
        partial = ready_file.with_name(f".{ready_file.name}.{os.getpid()}")
        partial.unlink(missing_ok=True)  # of a process that was killed, or a link
        with partial.open("x") as file:
            file.write(address)
        partial.replace(ready_file)


def withdraw(ready_file: Path | None) -> None:
    """Removes the ready file, if there is one: the process serves no more, and only exports the remaining telemetry."""
    if ready_file is not None:
        ready_file.unlink(missing_ok=True)


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """asyncio.run, on uvloop if it is installed: grpc.aio is about 1.2 times as fast on it."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def signalled() -> asyncio.Event:
    """Returns an event that SIGTERM or SIGINT sets. Call it inside the running loop."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop
