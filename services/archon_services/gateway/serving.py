"""Uvicorn in the event loop of the process, on a socket that is bound before it starts."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from archon.errors import Internal, Unavailable
from archon.loopback import with_port
from archon_services.gateway.connections import TimedProtocol

STOP_GRACE: Final = 2
"""Seconds that requests in flight get at shutdown; streams are ended by their rooms before."""

MAX_CONNECTIONS: Final = 4_000
"""Connections at a time; requests on further ones are answered with 503."""

MAX_HEADERS: Final = 64 * 1024
"""Bytes of the headers of a request: a session of a large token has four cookies."""

BACKLOG: Final = 256
"""Connections that wait to be accepted."""


class _Server(uvicorn.Server):
    """A server that leaves signals to the process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(application: ASGIApp, host: str, port: int) -> AsyncIterator[str]:
    """Serves an application for the duration of the block, and yields host:port; port 0 picks a free one. Raises
    Unavailable if the port is taken."""
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
        timeout_keep_alive=15,
        timeout_graceful_shutdown=STOP_GRACE,
        backlog=BACKLOG,
    )
    server = _Server(config)
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


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
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
