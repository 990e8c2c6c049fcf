"""The seam of the HTTP gateway: the parts that each room shares, and the routes that it adds.

A room is a folder of this package with one function, an asynchronous context manager that yields routes and owns the
background work behind them:

    @asynccontextmanager
    async def clock_room(gateway: Gateway) -> AsyncIterator[Sequence[BaseRoute]]:
        async def now(request: Request) -> Response:
            visitor = gateway.visitors.of(request.headers, GET_RUN)
            ...
        yield [Route("/clock", now)]

`gateway_app` enters all rooms of `app.ROOMS`, in that order, before it serves. A route that raises an ArchonError is
answered with its HTTP status and the error as JSON (`archon_services.gateway.failures`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from starlette.routing import BaseRoute

from archon_services.gateway.draining import Draining
from archon_services.gateway.identity.visitors import Visitors
from archon_services.gateway.settings import GatewaySettings
from archon_services.gateway.upstream import Upstream
from archon_services.gateway.watches.runs import RunWatches


@dataclass(frozen=True, slots=True)
class Gateway:
    """The parts that rooms share.

    `visitors` says who makes a request. `upstream` has the services of the mesh: calls there carry the visitor's
    credentials, or the gateway's own on behalf of an identity. `run_watches` are the events of runs.
    `draining` says whether the gateway has begun to stop.
    `on_stop` are called before the server stops, which waits for requests in flight: a room ends its streams there.
    """

    settings: GatewaySettings
    visitors: Visitors
    upstream: Upstream
    run_watches: RunWatches
    draining: Draining
    on_stop: list[Callable[[], None]] = field(default_factory=list)


Room = Callable[[Gateway], AbstractAsyncContextManager[Sequence[BaseRoute]]]
"""Yields the routes of a part of the gateway, for as long as it is served."""
