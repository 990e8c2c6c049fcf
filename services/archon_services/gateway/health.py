"""The room of health: answers probes of the supervisor and of Kubernetes, without credentials."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from archon.background import monitor
from archon_services.gateway.front.guard import HEALTHY, READY
from archon_services.gateway.room import Gateway


@asynccontextmanager
async def health_room(gateway: Gateway) -> AsyncIterator[Sequence[BaseRoute]]:
    """Serves `/healthz`: 200 while the gateway serves, 503 while one of its background loops keeps failing; and
    `/readyz`, which is 503 as well from the moment at which the gateway begins to stop. They say nothing about the
    services of the mesh, which have probes of their own."""

    def answer(serves: bool) -> Response:
        return JSONResponse({"status": "SERVING" if serves else "NOT_SERVING"}, 200 if serves else 503)

    async def healthy(request: Request) -> Response:
        return answer(not monitor.failing)

    async def ready(request: Request) -> Response:
        return answer(not monitor.failing and not gateway.draining.begun)

    yield [Route(HEALTHY, healthy, methods=["GET"]), Route(READY, ready, methods=["GET"])]
