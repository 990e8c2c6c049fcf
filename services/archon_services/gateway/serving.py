"""Uvicorn in the event loop of the process, on a socket that is bound before it starts."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from archon.errors import Internal, Unavailable
from archon.loopback import with_port
from archon_services.gateway.connections import TimedProtocol
from archon_services.gateway.tls import ServerCertificate

STOP_GRACE: Final = 2
"""Seconds that requests in flight get at shutdown; streams are ended by their rooms before."""

MAX_CONNECTIONS: Final = 4_000
"""Connections at a time; requests on further ones are answered with 503."""

MAX_HEADERS: Final = 64 * 1024
"""Bytes of the headers of a request: a session of a large token has four cookies."""

BACKLOG: Final = 256
"""Connections that wait to be accepted."""

HANDSHAKE_SECONDS: Final = 10.0
"""Seconds in which a client completes the handshake of TLS."""

SHUTDOWN_SECONDS: Final = 5.0
"""Seconds in which a client answers the end of a connection with TLS."""

OPEN_FILES: Final = 16_384
"""Open files that a gateway asks for, as far as the system allows them: a connection is one."""


class _Server(uvicorn.Server):
    """A server that leaves signals to the process, and bounds the handshakes of TLS."""

    def __init__(self, config: uvicorn.Config, certificate: ServerCertificate | None) -> None:
        super().__init__(config)
        self.servers: list[asyncio.base_events.Server] = []
        self._certificate = certificate

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        loop = asyncio.get_running_loop()

        def protocol() -> TimedProtocol:
            return TimedProtocol(self.config, self.server_state, self.lifespan.state, loop)

        for listening in sockets or ():
            if self._certificate is None:
                server = await loop.create_server(protocol, sock=listening, backlog=BACKLOG)
            else:
                server = await loop.create_server(
                    protocol,
                    sock=listening,
                    backlog=BACKLOG,
                    ssl=self._certificate.context,
                    ssl_handshake_timeout=HANDSHAKE_SECONDS,
                    ssl_shutdown_timeout=SHUTDOWN_SECONDS,
                )
            self.servers.append(server)
        self.started = True


@asynccontextmanager
async def serving(
    application: ASGIApp,
    host: str,
    port: int,
    *,
    certificate: ServerCertificate | None = None,
    keep_alive: int = 15,
) -> AsyncIterator[str]:
    """Serves an application for the duration of the block, and yields host:port; port 0 picks a free one. `keep_alive`
    are the seconds for which an idle connection is kept. Raises Unavailable if the port is taken."""
    listening = _bind(host, port)
    config = uvicorn.Config(
        application,
        http=TimedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # strangers cause warnings
        h11_max_incomplete_event_size=MAX_HEADERS,
        limit_concurrency=MAX_CONNECTIONS,
        reset_contextvars=True,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=keep_alive,
        timeout_graceful_shutdown=STOP_GRACE,
        backlog=BACKLOG,
    )
    server = _Server(config, certificate)
    task = asyncio.create_task(server.serve(sockets=[listening]), name="http server")
    try:
        while not server.started:  # uvicorn has no event for it
            if task.done():
                task.result()
                raise Internal("the HTTP server has ended before it served")
            await asyncio.sleep(0.001)
        yield with_port(host, listening.getsockname()[1])
    finally:
        server.should_exit = True
        await asyncio.wait([task], timeout=2 * STOP_GRACE + 1)
        task.cancel()
        await asyncio.wait([task])
        listening.close()


def raise_open_files() -> None:
    """Has the system admit OPEN_FILES, as far as this user may have them."""
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small pieces at once (TCP_NODELAY) on sockets that name their protocol alone.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host.strip("[]"), port))
    except OSError as error:
        listening.close()
        wanted = with_port(host, port)
        raise Unavailable(
            f"cannot listen on {wanted}: {error.strerror}; is another process using the port?",
            metadata={"address": wanted},
        ) from None
    listening.setblocking(False)
    return listening
